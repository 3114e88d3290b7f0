"""A piece of an utterance on its way to the streaming model, and the text that comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cosyd.asr.decode import Decode
from cosyd.types import Transcript

Ends = Literal["", "utterance", "segment"]


@dataclass(frozen=True, eq=False)
class Chunk(Decode):
    """``audio`` is what came since the chunk before; the model remembers the rest.

    ``blocks`` is the position in the utterance after it. ``origin_s``: time of the utterance's first sample
    in the source clock. ``ends``: nothing follows (``utterance``: the tail is padded, the stream closed), or
    the next utterance follows without a pause (``segment``: the model goes on).
    """

    origin_s: float = 0.0
    ends: Ends = ""


@dataclass(frozen=True)
class LiveTranscript(Transcript):
    """Text of an utterance so far. ``stable``: its beginning that no later result can change; ``trailing_s``:
    audio since the last piece, as the model hears it."""

    stable: str = ""
    trailing_s: float = 0.0
