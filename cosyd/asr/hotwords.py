"""Hotwords: phrases that a recogniser favours, each with a score.

Written one a line, as in the files of sherpa-onnx: a phrase, optionally followed by ``:`` and its score, with
or without a blank before it (``flat white :2.5``, ``americano:3``, ``Sauter``). Empty lines and lines that
begin with ``#`` say nothing. What a score means is the recogniser's: a bonus per token of the phrase, in nats
of log probability; a phrase without one gets the recogniser's default.

Nothing is ignored without a word: a line that makes no sense is a ``Rejected`` with its reason, and so is
a phrase that a recogniser cannot spell.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cosyd.errors import ConfigError

MAX_SCORE = 20.0  # e**20: beyond it a phrase is no favourite but the only thing that can be said
MAX_PHRASE = 100  # characters: a phrase, not a paragraph
MAX_PHRASES = 5_000  # in one list: as many as fit into a control request
MAX_FILE_BYTES = 1_000_000  # 5,000 phrases of 100 characters, twice over


@dataclass(frozen=True)
class Hotword:
    """``score``: None is the recogniser's default. Written as it is read: ``phrase:score``."""

    phrase: str
    score: float | None = None

    @property
    def key(self) -> str:
        """What makes two phrases the same: case does not."""
        return self.phrase.casefold()

    def __str__(self) -> str:
        return self.phrase if self.score is None else f"{self.phrase}:{self.score:g}"


@dataclass(frozen=True)
class Rejected:
    """A phrase that has no effect, and why."""

    phrase: str
    reason: str


def parse_hotword(line: str) -> Hotword | Rejected:
    """One line; not an empty one or a comment."""
    text = " ".join(unicodedata.normalize("NFC", line).split())
    phrase, colon, number = text.rpartition(":")
    phrase = phrase.strip() if colon else text
    if not any(c.isalnum() for c in phrase):
        return Rejected(text, "there are no letters in it")
    if len(phrase) > MAX_PHRASE:
        return Rejected(phrase[:MAX_PHRASE] + "…", f"longer than {MAX_PHRASE} characters")
    if any(mark in f" {phrase}" for mark in (" #", " @")):
        return Rejected(text, "# and @ belong to lists for keyword spotting, not to hotwords")
    if not colon:
        return Hotword(phrase)
    return _scored(text, phrase, number.strip())


def _scored(text: str, phrase: str, number: str) -> Hotword | Rejected:
    try:
        score = float(number)
    except ValueError:
        return Rejected(text, f"{number!r} is no score; write phrase:score, such as {phrase}:2")
    if not (math.isfinite(score) and 0 < score <= MAX_SCORE):
        return Rejected(text, f"the score {number} is not above 0 and at most {MAX_SCORE:g}")
    return Hotword(phrase, score)


def parse_hotwords(lines: Iterable[str]) -> tuple[tuple[Hotword, ...], tuple[Rejected, ...]]:
    """The hotwords of these lines, in their order, and the lines that are none.

    Of a phrase that comes twice the last one counts, in the place of the first.
    """
    accepted: dict[str, Hotword] = {}
    rejected: list[Rejected] = []
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        hotword = parse_hotword(line)
        if isinstance(hotword, Hotword) and len(accepted) >= MAX_PHRASES and hotword.key not in accepted:
            hotword = Rejected(hotword.phrase, f"the list has {MAX_PHRASES} phrases already")
        if isinstance(hotword, Hotword):
            accepted[hotword.key] = hotword
        else:
            rejected.append(hotword)
    return tuple(accepted.values()), tuple(rejected)


def read_hotwords(path: Path) -> list[str]:
    """The lines of a file of hotwords. Raises ConfigError when it cannot be read."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigError([f"{path}: longer than {MAX_FILE_BYTES} bytes; no list of hotwords"])
        return path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise ConfigError([f"{path}: the hotwords cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: the hotwords are not UTF-8: {error.reason}"]) from error
