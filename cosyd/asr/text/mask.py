"""Words that are not to be read: all letters but the first become asterisks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from cosyd.errors import ConfigError

MAX_FILE_BYTES = 1_000_000  # the longest list in use has some 3,000 words


class Mask:
    """Whole words and phrases, in any case; ``word*`` stands for all that begin so."""

    def __init__(self, words: Iterable[str]) -> None:
        spelled = sorted({" ".join(word.split()) for word in words} - {"", "*"}, key=len, reverse=True)
        self._pattern = re.compile(
            r"(?<!\w)(?:" + "|".join(_pattern(word) for word in spelled) + r")(?!\w)", re.IGNORECASE
        )
        self._any = bool(spelled)

    def __call__(self, text: str) -> str:
        return self._pattern.sub(_masked, text) if self._any else text


def _pattern(word: str) -> str:
    return r"\s+".join(re.escape(part).replace(r"\*", r"\w*") for part in word.split())


def _masked(match: re.Match[str]) -> str:
    found = match[0]
    return found[0] + re.sub(r"\w", "*", found[1:])


def read_words(file: Path) -> tuple[str, ...]:
    """One a line; empty lines and those that begin with ``#`` count for nothing. Raises ConfigError."""
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise ConfigError([f"text.mask_file: {file}: longer than {MAX_FILE_BYTES} bytes"])
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"text.mask_file: {file}: cannot be read: {error}"]) from error
    return tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))
