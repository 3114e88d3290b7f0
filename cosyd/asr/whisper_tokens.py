"""Whisper's vocabulary: byte-level pieces (Radford et al. 2019), names in ``<|…|>`` to steer the decoder.

A piece is written with one printable character a byte. Its number is also its rank: text is cut into pieces
by joining, again and again, the two neighbours that make the piece of the lowest number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from cosyd.errors import ModelDamaged, ModelMissing

END = "<|endoftext|>"
START = "<|startoftranscript|>"
TRANSCRIBE = "<|transcribe|>"
BEFORE = "<|startofprev|>"
NO_TIMES = "<|notimestamps|>"
FILES = ("vocabulary.json", "vocabulary.txt")

# Words with the blank before them, numbers, punctuation: pieces do not reach across these.
_CHUNKS = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")
_LANGUAGE = re.compile(r"<\|([a-z]{2,3}|haw)\|>")


def _printable_bytes() -> dict[str, int]:
    """Byte by the character it is written with: itself if it is printable, else one from U+0100 on."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(plain)]
    written = {chr(byte): byte for byte in plain}
    return written | {chr(0x100 + i): byte for i, byte in enumerate(others)}


_BYTES = _printable_bytes()


class Vocabulary:
    """Numbers of pieces and names. Names have no text."""

    def __init__(self, pieces: Sequence[str]) -> None:
        """Raises ModelDamaged for what is no vocabulary of Whisper's."""
        numbers = {piece: number for number, piece in enumerate(pieces)}
        if END not in numbers or START not in numbers:
            raise ModelDamaged(f"a vocabulary of {len(pieces)} pieces has no {START}: this is not Whisper's")
        self._names = numbers
        self._text = [_bytes_of(piece) for piece in pieces[: numbers[END]]]
        self._ranks = {piece: number for number, piece in enumerate(self._text)}
        self.languages = {
            match[1]: number
            for piece, number in numbers.items()
            if (match := _LANGUAGE.fullmatch(piece)) is not None
        }

    @classmethod
    def load(cls, folder: Path) -> Vocabulary:
        """Of a model's folder. Raises ModelMissing or ModelDamaged."""
        path = next((folder / name for name in FILES if (folder / name).is_file()), None)
        if path is None:
            raise ModelMissing(f"{folder}: no {' or '.join(FILES)} there; it belongs to the model")
        try:
            content = path.read_text(encoding="utf-8")
            pieces = json.loads(content) if path.suffix == ".json" else content.rstrip("\n").split("\n")
        except ValueError as error:
            raise ModelDamaged(f"{path}: cannot be read: {error}") from error
        if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
            raise ModelDamaged(f"{path}: not a list of pieces")
        return cls(pieces)

    def __getitem__(self, name: str) -> int:
        """The number of a name. Raises ModelDamaged where the model lacks it."""
        try:
            return self._names[name]
        except KeyError:
            raise ModelDamaged(f"the vocabulary has no {name}") from None

    def bytes_of(self, token: int) -> bytes:
        """UTF-8 of one piece, which need not be whole characters; nothing of a name."""
        return self._text[token] if token < len(self._text) else b""

    def decode(self, tokens: Iterable[int]) -> str:
        """Characters that are cut off are left out."""
        return b"".join(map(self.bytes_of, tokens)).decode("utf-8", "ignore")

    def encode(self, text: str) -> list[int]:
        """Pieces of a text; where it begins a word, it begins with a blank."""
        return [token for chunk in _CHUNKS.findall(text) for token in self._pieces(chunk.encode())]

    def _pieces(self, chunk: bytes) -> list[int]:
        parts = [chunk[i : i + 1] for i in range(len(chunk))]
        while len(parts) > 1:
            ranks = [self._ranks.get(a + b, len(self._ranks)) for a, b in pairwise(parts)]
            best = min(range(len(ranks)), key=ranks.__getitem__)
            if ranks[best] == len(self._ranks):
                break
            parts[best : best + 2] = [parts[best] + parts[best + 1]]
        return [self._ranks[part] for part in parts]


def _bytes_of(piece: str) -> bytes:
    try:
        return bytes(_BYTES[character] for character in piece)
    except KeyError as error:
        raise ModelDamaged(f"a piece of the vocabulary, {piece!r}, is not written in bytes") from error
