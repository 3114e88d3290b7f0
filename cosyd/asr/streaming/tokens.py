"""``tokens.txt``: pieces by number, and text from them.

Understood are word pieces (``▁`` begins a word), characters of any script, byte pieces (``<0xE4>``, for what
the vocabulary lacks) and icefall's byte-level BPE, which writes each byte as one printable character.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from cosyd.errors import ModelDamaged

WORD_START = "▁"
BLANKS = ("<blk>", "<blank>", "<eps>")
UNKNOWN = "<unk>"
_SPECIAL = re.compile(r"^(<(blk|blank|eps|unk|sos/eos|sos|eos|s|/s|pad|PAD|EPS)>|<\|.*\|>|\[PAD\]|#\d+)$")
_BYTE_PIECE = re.compile(r"^<0x([0-9A-Fa-f]{2})>$")


def _byte_characters() -> str:
    """Character for each byte in icefall's byte-level BPE: printable ASCII stays, others are Latin letters.

    The letters follow each other from U+0100 on, without those that Unicode's NFKC would rewrite.
    """
    letters = (c for c in range(0x100, 0x1A7) if c not in {0x132, 0x133, 0x13F, 0x140, 0x149, 0x17F})
    return "".join(chr(byte) if 32 <= byte < 127 else chr(next(letters)) for byte in range(256))


_BYTE_OF = {character: byte for byte, character in enumerate(_byte_characters())}


class Tokens:
    """The vocabulary of a model. ``blank`` is the number of CTC's and the transducer's blank."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self.pieces = tuple(pieces)
        self.ids = {piece: number for number, piece in enumerate(pieces)}
        named = next((self.ids[name] for name in BLANKS if name in self.ids), None)
        self.named_blank = named is not None
        self.blank = named or 0
        self.unknown = self.ids.get(UNKNOWN)

    def __len__(self) -> int:
        return len(self.pieces)

    @cached_property
    def byte_level(self) -> bool:
        """Whether this is byte-level BPE: nothing but its characters, with some that no text has."""
        plain = [p.replace(WORD_START, "") for p in self.pieces if not _SPECIAL.match(p)]
        plain = [p for p in plain if not _BYTE_PIECE.match(p)]
        letters = {c for p in plain for c in p}
        return letters <= _BYTE_OF.keys() and sum(ord(c) >= 0x100 for c in letters) > 100

    @cached_property
    def bytes_of(self) -> tuple[bytes, ...]:
        """What each piece adds to a text, in UTF-8; a blank before a word."""
        return tuple(self._bytes(piece) for piece in self.pieces)

    def _bytes(self, piece: str) -> bytes:
        if _SPECIAL.match(piece):
            return b""
        if (byte := _BYTE_PIECE.match(piece)) is not None:
            return bytes([int(byte[1], 16)])
        if self.byte_level:
            return bytes(0x20 if c == WORD_START else _BYTE_OF[c] for c in piece)
        return piece.replace(WORD_START, " ").encode()

    def text(self, tokens: Sequence[int]) -> str:
        """Pieces joined; bytes that are no UTF-8, such as the beginning of a character, are left out."""
        joined = b"".join(self.bytes_of[token] for token in tokens)
        return " ".join(joined.decode("utf-8", "ignore").split())

    def starts_word(self, token: int) -> bool:
        """Whether the text before this piece is a finished word: a blank, or a script without blanks."""
        raw = self.bytes_of[token]
        return raw[:1] == b" " or (len(raw) > 2 and _is_ideograph(raw))

    @cached_property
    def spaced(self) -> bool:
        """Whether words are parted by blanks (most scripts) or not at all (Chinese characters alone)."""
        return any(raw[:1] == b" " for raw in self.bytes_of)


def _is_ideograph(raw: bytes) -> bool:
    character = raw.decode("utf-8", "ignore")[:1]
    return bool(character) and ("\u3040" <= character <= "\u9fff" or "\uf900" <= character <= "\ufaff")


def read_tokens(file: Path) -> Tokens:
    """``SYMBOL ID`` a line, ids from 0 without holes. Raises ModelDamaged with the line that is wrong."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelDamaged(f"{file}: cannot be read: {error}") from error
    pieces: dict[int, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        symbol, _, identity = line.rstrip().rpartition(" ")
        if not identity.isdigit() or int(identity) in pieces:
            raise ModelDamaged(f"{file}:{number}: {line.strip()!r} is not SYMBOL ID with an ID of its own")
        pieces[int(identity)] = symbol.strip() or " "
    if not pieces or max(pieces) != len(pieces) - 1:
        raise ModelDamaged(f"{file}: the IDs of its {len(pieces)} symbols are not 0 to {len(pieces) - 1}")
    return Tokens([pieces[identity] for identity in range(len(pieces))])
