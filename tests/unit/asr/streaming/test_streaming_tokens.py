"""Text from tokens of all kinds, whole words, and what of a text can change no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosyd.asr.decoders.hypothesis import Hypothesis
from cosyd.asr.streaming.tokens import Tokens, _byte_characters, read_tokens
from cosyd.asr.streaming.transcript import stable_text, transcript_of

PIECES = ["<blk>", "▁he", "llo", "▁wor", "ld", "▁", "!", "你", "好", *(f"<0x{b:02X}>" for b in range(256))]


def tokens_of(*pieces: str) -> tuple[Tokens, list[int]]:
    tokens = Tokens(PIECES)
    return tokens, [tokens.ids[piece] for piece in pieces]


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["▁he", "llo", "▁wor", "ld"], "hello world"),
        (["▁", "he" and "▁he", "llo"], "hello"),
        (["你", "好"], "你好"),
        (["▁he", "llo", "你", "好"], "hello你好"),
        (["<0xE4>", "<0xBD>", "<0xA0>", "好"], "你好"),
        (["▁he", "llo", "<0xE4>", "<0xBD>"], "hello"),  # a character that is not whole yet
        (["▁he", "<blk>", "llo"], "hello"),
    ],
)
def test_text(pieces: list[str], text: str) -> None:
    tokens, ids = tokens_of(*pieces)
    assert tokens.text(ids) == text


def test_byte_level_bpe() -> None:
    characters = _byte_characters()
    assert len(set(characters)) == 256
    assert (characters[0x20], characters[0x41], characters[0], characters[0xFF]) == (" ", "A", "Ā", "Ʀ")
    words = ["".join(characters[b] for b in word.encode()) for word in ("你", "好", "é", "abc")]
    tokens = Tokens(["<blk>", "<unk>", *characters[0x21:0x7F], *characters[0x80:], *(f"▁{w}" for w in words)])
    assert tokens.byte_level
    assert tokens.text([tokens.ids[f"▁{w}"] for w in words]) == "你 好 é abc"
    half = [tokens.ids[c] for c in words[0][:2]]
    assert tokens.text(half) == ""
    assert tokens.text([*half, tokens.ids[words[0][2]]]) == "你"


def test_a_vocabulary_of_latin_text_is_not_byte_level() -> None:
    assert not Tokens(["<blk>", *"abcdefgšžčř", "▁a"]).byte_level


def test_a_symbol_may_be_a_blank(tmp_path: Path) -> None:
    file = tmp_path / "tokens.txt"
    file.write_text("<blank> 0\na 1\n\n  2\n", encoding="utf-8")
    assert read_tokens(file).pieces == ("<blank>", "a", " ")


def hypothesis(ids: list[int], probs: list[float]) -> Hypothesis:
    from math import log

    return Hypothesis(tuple(ids), tuple(range(len(ids))), tuple(log(p) for p in probs))


def test_words_with_times_and_confidences() -> None:
    tokens, ids = tokens_of("▁he", "llo", "▁wor", "ld")
    transcript = transcript_of(hypothesis(ids, [0.9, 0.4, 1.0, 1.0]), tokens, 0.04, 10.0)
    assert [(w.w, w.start, w.end) for w in transcript.words] == [
        ("hello", 10.0, 10.08),
        ("world", 10.08, 10.16),
    ]
    assert transcript.words[0].conf == pytest.approx(0.6)
    assert transcript.sure == pytest.approx((0.4, 1.0))
    assert transcript.conf == pytest.approx(0.36**0.25)


def test_characters_are_words_of_their_own() -> None:
    tokens, ids = tokens_of("你", "好", "▁he", "llo")
    words = transcript_of(hypothesis(ids, [1.0] * 4), tokens, 0.04).words
    assert [word.w for word in words] == ["你", "好", "hello"]


def test_nothing_said() -> None:
    tokens, _ = tokens_of()
    transcript = transcript_of(Hypothesis(), tokens, 0.04)
    assert (transcript.text, transcript.conf, transcript.words) == ("", None, ())


def test_what_all_readings_share_is_stable_up_to_the_last_whole_word() -> None:
    tokens, ids = tokens_of("▁he", "llo", "▁wor", "ld", "▁he")
    assert stable_text([tuple(ids[:4])], tokens) == "hello"
    assert stable_text([tuple(ids)], tokens) == "hello world"
    other = (*ids[:3], tokens.ids["!"], ids[4])
    assert stable_text([tuple(ids), other], tokens) == "hello"
    assert stable_text([tuple(ids), tuple(ids[:1])], tokens) == ""
