"""Byte-pair vocabulary in Moonshine's ``tokenizer.bin``: tokens to text and back.

The file is the pieces in the order of their ids, each a length and that many bytes. A length of 128 or more
takes two bytes, ``b1 * 128 + b0 - 128``, the lower seven bits first. A piece is UTF-8 with ``▁`` for a space,
or a single byte (any value, so that characters without a piece of their own can be spelled), or a control
symbol in ``<>``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosyd.errors import ModelDamaged, ModelMissing

BOS = 1
EOS = 2
_FIRST_BYTE = 3  # ids 0..2 are <unk> <s> </s>; the 256 single bytes follow
_SPACE = "▁"
_LONG = 128  # lengths from here on take two bytes


def _read_pieces(data: bytes, name: str) -> list[bytes]:
    pieces: list[bytes] = []
    at, end = 0, len(data)
    while at < end:
        length = data[at]
        at += 1
        if length >= _LONG and at < end:
            length += data[at] * _LONG - _LONG
            at += 1
        pieces.append(data[at : at + length])
        at += length
    if at > end:
        raise ModelDamaged(f"{name}: token {len(pieces) - 1} runs past the end; run: cosyd models verify")
    if len(pieces) < _FIRST_BYTE + 256:
        raise ModelDamaged(f"{name}: only {len(pieces)} tokens; run: cosyd models verify")
    return pieces


def _is_control(piece: bytes) -> bool:
    return len(piece) > 2 and piece.startswith(b"<") and piece.endswith(b">")


class Tokenizer:
    """A vocabulary; immutable."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    @cached_property
    def _rank(self) -> dict[bytes, int]:
        """Of what can be encoded. Made when something is: a start need not wait for it."""
        rank = {p: i for i, p in enumerate(self._pieces) if p[:1] != b"<" or not _is_control(p)}
        for byte in range(256):  # a one-byte character may have a piece of its own, which encoding prefers
            rank.setdefault(bytes([byte]), _FIRST_BYTE + byte)
        return rank

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Raises ModelMissing or ModelDamaged."""
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise ModelMissing(f"{path}: not there; run: cosyd models pull") from None
        return cls(_read_pieces(data, path.name))

    def __len__(self) -> int:
        return len(self._pieces)

    def piece(self, token: int) -> bytes:
        """The bytes that a token stands for, with ``▁`` for a space; none for a control symbol."""
        piece = self._pieces[token]
        return b"" if _is_control(piece) else piece

    def writes(self, character: str) -> bool:
        """Whether the character has a token of its own, so that it need not be spelled in single bytes."""
        return character.encode() in self._rank

    def decode(self, tokens: Iterable[int]) -> str:
        """Text of tokens, without control symbols; broken UTF-8 (a character cut in half) is left out."""
        data = b"".join(map(self.piece, tokens))
        return " ".join(data.decode("utf-8", errors="ignore").replace(_SPACE, " ").split())

    def encode(self, text: str) -> tuple[int, ...]:
        """Tokens of whole words, as the model itself would spell them: the lowest-numbered merge first."""
        words = text.split()
        return tuple(token for word in words for token in self._encode_word(_SPACE + word))

    def _encode_word(self, word: str) -> list[int]:
        parts = [character.encode() for character in word]
        while len(parts) > 1:
            ranks = [self._rank.get(a + b, len(self)) for a, b in pairwise(parts)]
            best = min(range(len(ranks)), key=ranks.__getitem__)
            if ranks[best] == len(self):
                break
            parts[best : best + 2] = [parts[best] + parts[best + 1]]
        return [token for part in parts for token in self._spell(part)]

    def _spell(self, part: bytes) -> list[int]:
        if part in self._rank:
            return [self._rank[part]]
        return [_FIRST_BYTE + byte for byte in part]

    @cached_property
    def starts_word(self) -> NDArray[np.bool_]:
        """bool [vocabulary]: the tokens that can follow a whole word, EOS included."""
        space = _SPACE.encode()
        mask = np.array([piece.startswith(space) for piece in self._pieces])
        mask[EOS] = True
        return mask
