"""Texts made comparable before words are counted: lower case, no punctuation, numbers spelled out."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_BELOW_20 = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_ONES = _BELOW_20.split()
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ORDINALS = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth"}
_ORDINALS |= {"nine": "ninth", "twelve": "twelfth"}
_SCALES = ((1_000_000_000, "billion"), (1_000_000, "million"), (1_000, "thousand"), (100, "hundred"))
_WORDS = {"mr": "mister", "mrs": "missus", "dr": "doctor", "st": "saint", "ok": "okay"}
_SYMBOLS = {"%": " percent ", "&": " and ", "$": " dollar ", "+": " plus "}


def spell(number: int) -> str:
    """A whole number from 0 in English words, without "and"."""
    if number < 0:
        raise ValueError(f"{number}: below zero")
    if number < 20:
        return _ONES[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _TENS[tens - 2] + (f" {_ONES[ones]}" if ones else "")
    scale, name = next((scale, name) for scale, name in _SCALES if number >= scale)
    count, rest = divmod(number, scale)
    return f"{spell(count)} {name}" + (f" {spell(rest)}" if rest else "")


def spell_ordinal(number: int) -> str:
    """1 -> first, 22 -> twenty second."""
    *before, last = spell(number).split()
    stem = last[:-1] + "ie" if last.endswith("y") else last
    return " ".join([*before, _ORDINALS.get(last, f"{stem}th")])


def _spell_year(number: int) -> str:
    """1775 -> seventeen seventy five, as it is read; 2005 and 1900 as numbers."""
    century, rest = divmod(number, 100)
    if 1100 <= number < 2000 and rest >= 10:
        return f"{spell(century)} {spell(rest)}"
    return spell(number)


def normalise(text: str) -> str:
    """``Mr. Smith paid $12, on the 3rd.`` -> ``mister smith paid dollar twelve on the third``."""
    text = _ascii(text).lower()
    for symbol, word in _SYMBOLS.items():
        text = text.replace(symbol, word)
    text = re.sub(r"\b\d{1,3}(?:,\d{3}){1,3}\b", lambda m: spell(int(m[0].replace(",", ""))), text)
    text = re.sub(r"\b(\d{1,9})(?:st|nd|rd|th)\b", lambda m: spell_ordinal(int(m[1])), text)
    text = re.sub(r"\b\d{4}\b", lambda m: _spell_year(int(m[0])), text)
    text = re.sub(r"\d{1,12}", lambda m: f" {spell(int(m[0]))} ", text)
    text = re.sub(r"[^a-z']+", " ", text)
    words = (word.strip("'") for word in text.split())
    return " ".join(_WORDS.get(word, word) for word in words if word)


def _ascii(text: str) -> str:
    """Letters without their accents, typographic apostrophes as plain ones."""
    text = text.replace("’", "'").replace("‘", "'").replace("—", " ").replace("–", " ")
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


def edit_distance(a: Sequence[str], b: Sequence[str]) -> int:
    """Words to insert, delete or replace."""
    from rapidfuzz.distance import Levenshtein

    return int(Levenshtein.distance(a, b))
