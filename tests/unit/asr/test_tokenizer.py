"""tokenizer.bin: reading, decoding with byte pieces, encoding as the model spells."""

from pathlib import Path

import pytest

from cosyd.asr.tokenizer import EOS, Tokenizer
from cosyd.errors import ModelDamaged, ModelMissing

BYTES = [bytes([i]) for i in range(256)]
FIRST = 3 + 256  # id of the first piece after <unk> <s> </s> and the bytes


def pieces(*own: str) -> list[bytes]:
    return [b"<unk>", b"<s>", b"</s>", *BYTES, *(piece.encode() for piece in own)]


def pack(all_pieces: list[bytes]) -> bytes:
    """The file format, written from its description."""
    lengths = (bytes([n]) if n < 128 else bytes([n % 128 + 128, n // 128]) for n in map(len, all_pieces))
    return b"".join(length + piece for length, piece in zip(lengths, all_pieces, strict=True))


@pytest.mark.parametrize("length", [1, 127, 128, 129, 300, 16_000])
def test_reads_pieces_of_any_length(tmp_path: Path, length: int) -> None:
    path = tmp_path / "tokenizer.bin"
    path.write_bytes(pack(pieces("x" * length, "▁end")))
    tokenizer = Tokenizer.load(path)
    assert len(tokenizer) == FIRST + 2
    assert tokenizer.decode([FIRST, FIRST + 1]) == "x" * length + " end"


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_file_that_is_cut_off_is_damaged(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "tokenizer.bin"
    path.write_bytes(pack(pieces("▁end"))[:-cut])
    with pytest.raises(ModelDamaged, match=r"tokenizer\.bin.*runs past the end"):
        Tokenizer.load(path)


def test_an_empty_file_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.bin").touch()
    with pytest.raises(ModelDamaged, match="only 0 tokens"):
        Tokenizer.load(tmp_path / "tokenizer.bin")


def test_no_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="cosyd models pull"):
        Tokenizer.load(tmp_path / "tokenizer.bin")


def test_bytes_make_characters() -> None:
    tokenizer = Tokenizer(pieces("▁caf"))
    e_acute = [3 + byte for byte in "é".encode()]
    assert tokenizer.decode([FIRST, *e_acute]) == "café"
    assert tokenizer.decode([FIRST, e_acute[0]]) == "caf"  # half a character is left out
    assert tokenizer.decode([3 + byte for byte in "日本".encode()]) == "日本"


def test_control_symbols_are_no_text() -> None:
    tokenizer = Tokenizer(pieces("▁a", "<<ST_1>>"))
    assert tokenizer.decode([1, FIRST, FIRST + 1, EOS]) == "a"


def test_encoding_takes_the_lowest_merge_first() -> None:
    tokenizer = Tokenizer(pieces("▁a", "bc", "ab", "▁ab", "▁", "a", "b", "c"))
    by_name = {name: FIRST + i for i, name in enumerate(["▁a", "bc", "ab", "▁ab"])}
    assert tokenizer.encode("abc") == (by_name["▁a"], by_name["bc"])
    assert tokenizer.decode(tokenizer.encode("abc a  ab")) == "abc a ab"


def test_characters_without_a_piece_are_spelled_in_bytes() -> None:
    tokenizer = Tokenizer(pieces("▁", "a"))
    assert tokenizer.encode("aé") == (FIRST, FIRST + 1, 3 + 0xC3, 3 + 0xA9)


def test_what_can_follow_a_whole_word() -> None:
    mask = Tokenizer(pieces("▁a", "b")).starts_word
    assert (bool(mask[FIRST]), bool(mask[FIRST + 1]), bool(mask[EOS])) == (True, False, True)
