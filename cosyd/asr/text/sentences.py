"""A capital at the beginning and a mark at the end, for models that write neither.

An utterance ends where its speaker paused, which is a sentence's end more often than not; commas and
sentences inside are left to models that hear them. A text that has marks or both cases is left alone: its
model knows better.
"""

from __future__ import annotations

import re

_QUESTION_WORDS = {"who", "what", "when", "where", "why", "how", "which", "whose"}
_AUXILIARIES = {
    *("is", "are", "was", "were", "am", "do", "does", "did", "have", "has", "had"),
    *("can", "could", "will", "would", "shall", "should", "may", "might"),
    *("isn't", "aren't", "wasn't", "weren't", "don't", "doesn't", "didn't", "haven't", "hasn't"),
    *("can't", "couldn't", "won't", "wouldn't", "shouldn't"),
}
_SUBJECTS = {
    *("i", "you", "we", "they", "he", "she", "it", "this", "that", "these", "those", "there"),
    *("the", "a", "an", "my", "your", "our", "his", "her"),
}
_ALONE = re.compile(r"\bi\b(?=$|[ ']|[^\w'])")
_WRITTEN = re.compile(r"[.,;:?!…。，？！](\s|$)")


def as_sentences(text: str) -> str:
    """``what time is it`` -> ``What time is it?``; ``FLAT WHITE`` -> ``Flat white.``"""
    letters = [c for c in text if c.isalpha() and c.upper() != c.lower()]
    if not letters or _WRITTEN.search(text):
        return text
    if any(c.isupper() for c in letters) and any(c.islower() for c in letters):
        return text
    small = _ALONE.sub("I", text.lower())
    first = next(i for i, c in enumerate(small) if c.isalnum())
    return small[:first] + small[first].upper() + small[first + 1 :] + ("?" if _is_question(small) else ".")


def _is_question(text: str) -> bool:
    """By its first words: a question word, or an auxiliary before its subject."""
    words = text.lower().split()
    if words[0] in _AUXILIARIES:
        return len(words) > 1 and words[1] in _SUBJECTS
    return words[0] in _QUESTION_WORDS
