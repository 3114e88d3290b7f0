"""Whisper's vocabulary, on small ones; the real one is in test_whisper_model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosyd.asr.whisper_tokens import _BYTES, END, START, Vocabulary
from cosyd.errors import ModelDamaged, ModelMissing

WRITTEN = {byte: character for character, byte in _BYTES.items()}
SINGLE = [WRITTEN[byte] for byte in range(256)]


def vocabulary(*pieces: str) -> Vocabulary:
    written = ["".join(WRITTEN[byte] for byte in piece.encode()) for piece in pieces]
    return Vocabulary([*SINGLE, *written, END, START, "<|en|>", "<|haw|>", "<|yue|>", "<|0.00|>"])


def test_every_byte_has_a_character_of_its_own() -> None:
    assert sorted(_BYTES.values()) == list(range(256))
    assert _BYTES["Ġ"] == ord(" ")
    assert _BYTES["Ċ"] == ord("\n")
    assert all(character.isprintable() for character in _BYTES)


def test_the_lowest_number_joins_first() -> None:
    """``ab`` before ``bc``, so ``abc`` is ``ab`` and ``c``, though ``a`` and ``bc`` would be as few."""
    assert vocabulary("ab", "bc").encode("abc") == [256, ord("c")]
    assert vocabulary("bc", "ab").encode("abc") == [ord("a"), 256]
    assert vocabulary("ab", "bc", "abc").encode("abc") == [258]


def test_pieces_do_not_reach_across_words() -> None:
    words = vocabulary(" a", "a ", "1a", "a1", "a'", "'s")
    assert words.encode("a a") == [ord("a"), 256]
    assert words.encode("a1") == [ord("a"), ord("1")]
    assert words.encode("a's") == [ord("a"), 261]


@given(st.text())
def test_what_is_encoded_is_decoded(text: str) -> None:
    assert vocabulary(" a", "你").decode(vocabulary(" a", "你").encode(text)) == text


def test_names_have_no_text_and_cut_characters_are_left_out() -> None:
    words = vocabulary("你")
    assert words.decode([words[START], 256, words[END], "好".encode()[0]]) == "你"


def test_languages_are_found_by_their_names() -> None:
    words = vocabulary()
    assert words.languages == {code: words[f"<|{code}|>"] for code in ("en", "haw", "yue")}


@pytest.mark.parametrize("name", ["vocabulary.json", "vocabulary.txt"])
def test_load(tmp_path: Path, name: str) -> None:
    pieces = [*SINGLE, END, START]
    content = json.dumps(pieces) if name.endswith("json") else "\n".join(pieces) + "\n"
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert Vocabulary.load(tmp_path)[START] == 257


def test_load_nothing_and_nonsense(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"no vocabulary\.json or vocabulary\.txt"):
        Vocabulary.load(tmp_path)
    for content in ("{", '{"a": 1}', '["a", "b"]', "[1, 2]"):
        (tmp_path / "vocabulary.json").write_text(content)
        with pytest.raises(ModelDamaged):
            Vocabulary.load(tmp_path)
