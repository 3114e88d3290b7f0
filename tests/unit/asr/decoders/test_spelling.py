"""Phrases to tokens: each kind of vocabulary, and why a phrase is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosyd.asr.decoders.spelling import Speller, best_split, read_bpe_vocab, spell_hotwords, split_scripts
from cosyd.asr.hotwords import Hotword
from cosyd.asr.streaming.tokens import Tokens, read_tokens
from cosyd.errors import ModelDamaged, ModelMissing

PIECES = ["<blk>", "<unk>", "▁", "▁FLAT", "▁WH", "ITE", "I", "T", "E", "▁TEA", "S"]


@pytest.fixture
def vocab(tmp_path: Path) -> Path:
    file = tmp_path / "bpe.vocab"
    file.write_text("".join(f"{piece}\t{-i}\n" for i, piece in enumerate(PIECES[1:])))
    return file


def names(tokens: Tokens, found: tuple[int, ...]) -> list[str]:
    return [tokens.pieces[token] for token in found]


def test_the_split_with_the_best_sum_is_taken() -> None:
    scores = {"a": -1.0, "ab": -5.0, "b": -1.5, "abc": -2.0, "c": -1.0}
    assert best_split("abc", scores) == ["abc"]
    assert best_split("ab", scores) == ["a", "b"]
    assert best_split("axab", scores) == ["a", "x", "a", "b"]
    assert best_split("", scores) == []


def test_word_pieces_and_other_case(vocab: Path) -> None:
    tokens = Tokens(PIECES)
    speller = Speller.beside(tokens, vocab.parent)
    assert names(tokens, speller.spell("FLAT WHITE")) == ["▁FLAT", "▁WH", "ITE"]
    assert speller.spell("flat White") == speller.spell("FLAT WHITE")


def test_what_cannot_be_spelled_is_told(vocab: Path) -> None:
    speller = Speller.beside(Tokens(PIECES), vocab.parent)
    with pytest.raises(ValueError, match="no token for 'O'"):
        speller.spell("TEAOS")
    with pytest.raises(ValueError, match="nothing in it"):
        speller.spell("  ")


def test_every_hotword_is_accepted_or_rejected_with_its_reason(vocab: Path) -> None:
    speller = Speller.beside(Tokens(PIECES), vocab.parent)
    words = [Hotword("flat white", 3.0), Hotword("Zürich"), Hotword("TEA"), Hotword("tea", 2.0)]
    graph, accepted, rejected = spell_hotwords(words, speller)
    assert accepted == (Hotword("flat white", 3.0), Hotword("tea", 2.0))
    assert [(each.phrase, each.reason) for each in rejected] == [("Zürich", "the model has no token for 'Z'")]
    assert graph is not None
    assert graph.scores == (3.0, 2.0)
    _, boost = graph.step(np.zeros(1, np.int64), np.array([3]))
    assert boost == [3.0]
    assert spell_hotwords([Hotword("Zürich")], speller)[0] is None


def test_characters() -> None:
    tokens = Tokens(["<blk>", "<unk>", "文", "森", "特", "OK"])
    speller = Speller(tokens)
    assert names(tokens, speller.spell("文森 特OK")) == ["文", "森", "特", "OK"]
    with pytest.raises(ValueError, match="no token for '卡'"):
        speller.spell("文卡")


def test_characters_and_word_pieces(vocab: Path) -> None:
    tokens = Tokens([*PIECES, "文", "森"])
    speller = Speller.beside(tokens, vocab.parent)
    assert names(tokens, speller.spell("文TEA森 TEAS")) == ["文", "▁TEA", "森", "▁TEA", "S"]


def test_byte_pieces_spell_what_has_no_piece(vocab: Path) -> None:
    tokens = Tokens([*PIECES, *(f"<0x{byte:02X}>" for byte in range(256))])
    speller = Speller.beside(tokens, vocab.parent)
    assert names(tokens, speller.spell("TEAÜ")) == ["▁TEA", "<0xC3>", "<0x9C>"]
    assert tokens.text(speller.spell("TEAÜ")) == "TEAÜ"


def test_byte_level_vocabulary(tmp_path: Path) -> None:
    """Each byte is a printable character, and pieces are runs of them."""
    rewritten = "\u0132\u0133\u013f\u0140\u0149\u017f"
    characters = [
        c for c in map(chr, range(0x20, 0x1A7)) if (c < "\x7f" or c >= "\u0100") and c not in rewritten
    ]
    pieces = ["<blk>", "<unk>", *(c for c in characters if c != " ")]
    plain = Tokens(pieces)
    assert plain.byte_level
    spelled = "".join(pieces[i] for i in range(2, len(pieces)) if plain.bytes_of[i] in b"\xe6\x96\x87")
    assert len(spelled) == 3
    letter = {plain.bytes_of[i][0]: pieces[i] for i in range(2, len(pieces))}
    character = "▁" + "".join(letter[byte] for byte in "文".encode())
    tokens = Tokens([*pieces, "▁", character])
    (tmp_path / "bpe.vocab").write_text("".join(f"{p}\t{-i}\n" for i, p in enumerate(tokens.pieces)))
    found = Speller.beside(tokens, tmp_path).spell("文 é")
    assert names(tokens, found)[0] == character
    assert tokens.text(found) == "文 é"


def test_a_phrase_as_the_models_own_tokenizer_splits_it(shared_data: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    folder = shared_data.parent / "models" / "streaming-ctc-tiny"
    tokens = read_tokens(folder / "tokens.txt")
    speller = Speller.beside(tokens, folder)
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "bpe.model"))
    assert list(speller.spell("a large flat white")) == model.encode("a large flat white")
    assert speller.spell("Large FLAT white") == speller.spell("large flat white")


def test_scripts_are_parted() -> None:
    assert split_scripts("我要 flat white一杯") == ["我", "要", "flat", "white", "一", "杯"]


def test_damaged_files_are_told(tmp_path: Path) -> None:
    (tmp_path / "bpe.vocab").write_text("a\t0\nb 1\n")
    with pytest.raises(ModelDamaged, match=r"bpe.vocab:2: 'b 1'"):
        read_bpe_vocab(tmp_path / "bpe.vocab")
    (tmp_path / "bpe.model").write_text("nothing")
    with pytest.raises(ModelDamaged, match="no model of sentencepiece"):
        Speller.beside(Tokens(PIECES), tmp_path)


def test_word_pieces_without_their_model_are_told() -> None:
    with pytest.raises(ModelMissing, match=r"need its bpe.model or bpe.vocab"):
        Speller(Tokens(PIECES))
