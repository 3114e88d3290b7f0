"""Recordings with exact time: frame k of a file is sample ``first_sample + k`` of its clock, always.

What is missing (a device that was away, frames that were overwritten before they were read) is filled with
silence, and a JSON file beside the sound file lists it, with the clock of the source.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cosyd.capture.write import SoundFile
from cosyd.config.schema import Config, SourceConfig
from cosyd.errors import AudioError
from cosyd.models.store import ModelStore
from cosyd.ring import RingReader
from cosyd.spec import FRAME, AudioSpec, SampleFormat

if TYPE_CHECKING:
    from cosyd.frontend.contract import StreamFrontEnd

FILL_MOST_S = (
    600.0  # of silence written for what is missing; a device that was away longer ends the recording
)
WAIT_S = 0.1  # for frames, before the writer is looked at
PIECE_S = 0.25  # read at once
HEARD = AudioSpec(FRAME.rate_hz, 1, SampleFormat.F32)  # what comes out of the front end
TAPS = ("raw", "echo", "mono", "asr")


@dataclass(frozen=True)
class Piece:
    """Frames [n, channels] whose first is ``at`` in the clock of the recording."""

    at: int
    frames: NDArray[Any]


class Recorder:
    """Writes pieces to ``path``. A context manager; closing writes ``path`` + ``.json``.

    ``about``: what else the JSON file says; it may be changed until then.
    """

    def __init__(self, path: Path, spec: AudioSpec, about: dict[str, object]) -> None:
        self._file = SoundFile(path, spec)
        self.about = about
        self._filled: list[tuple[int, int]] = []
        self.first: int | None = None
        self._closed = False

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def frames(self) -> int:
        return self._file.frames

    @property
    def seconds(self) -> float:
        return self._file.frames / self._file.spec.rate_hz

    def write(self, piece: Piece) -> None:
        """Append it where it belongs. Raises AudioError when the file is full or too much is missing."""
        if self.first is None:
            self.first = piece.at
        missing = piece.at - (self.first + self._file.frames)
        if missing < 0:  # read again, or overlapping: the file has it
            piece = Piece(piece.at - missing, piece.frames[-missing:])
        if missing > 0:
            self._fill(missing, piece)
        if len(piece.frames) > self._file.room:
            raise AudioError(f"{self._file.path} is as large as a WAV file can be; record shorter pieces")
        self._file.write(piece.frames)

    def _fill(self, missing: int, piece: Piece) -> None:
        spec = self._file.spec
        if missing > FILL_MOST_S * spec.rate_hz:
            raise AudioError(
                f"{self._file.path}: {missing / spec.rate_hz:.0f} s are missing before sample {piece.at}; "
                "the recording ends there"
            )
        self._filled.append((self._file.frames, missing))
        silence = np.zeros((spec.rate_hz, *piece.frames.shape[1:]), piece.frames.dtype)
        while missing > 0:
            self._file.write(silence[:missing])
            missing -= len(silence)

    def close(self) -> None:
        """Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._file.close()
        spec = self._file.spec
        facts = {
            **self.about,
            "rate_hz": spec.rate_hz,
            "channels": spec.channels,
            "first_sample": self.first or 0,
            "frames": self._file.frames,
            "filled": [{"frame": at, "frames": count} for at, count in self._filled],
        }
        path = self._file.path
        beside = path.with_name(path.name + ".json")
        try:
            beside.write_text(json.dumps(facts, indent=1) + "\n")
        except OSError as error:
            raise AudioError(f"{beside} cannot be written: {error.strerror}") from error


# --- what there is to record ---------------------------------------------------------------------------


def raw_pieces(reader: RingReader, most_s: float | None, until: int | None = None) -> Iterator[Piece]:
    """What the device delivers, copied, until its source ends, for ``most_s`` or to the sample ``until``."""
    first: int | None = None
    for block in reader.blocks(reader.spec.frames(PIECE_S), WAIT_S):
        first = block.index if first is None else first
        end = until if most_s is None else first + reader.spec.frames(most_s)
        frames = block.frames if end is None else block.frames[: max(0, end - block.index)]
        piece = Piece(block.index, frames.copy())
        if reader.intact(block) and len(frames):
            yield piece
        if end is not None and block.index + len(block.frames) >= end:
            return


def heard_pieces(
    reader: RingReader, front_end: StreamFrontEnd, slot: int, most_s: float | None
) -> Iterator[Piece]:
    """What comes out of the front end, in its own clock: source clock times 16 kHz over the device's rate."""
    stretch = _Stretch(front_end, slot, FRAME.rate_hz / reader.spec.rate_hz)
    for piece in raw_pieces(reader, most_s):
        if piece.at != stretch.following:
            yield from stretch.end()
            stretch.begin(piece.at)
        yield from stretch.push(piece)
    yield from stretch.end()


class _Stretch:
    """Frames without a gap on their way through the front end; as many come out as belong to them."""

    def __init__(self, front_end: StreamFrontEnd, slot: int, ratio: float) -> None:
        self._front_end, self._slot, self._ratio = front_end, slot, ratio
        self.following: int | None = None  # the sample that continues it
        self._next = 0

    def begin(self, at: int) -> None:
        self._front_end.restart(self._slot, at)
        self.following = at
        self._next = round(at * self._ratio)

    def push(self, piece: Piece) -> Iterator[Piece]:
        taken = self._front_end.push(self._slot, piece.frames, piece.at)
        assert taken == len(piece.frames), "a piece is shorter than what may wait"
        self.following = piece.at + taken
        yield from self._stepped()

    def end(self) -> Iterator[Piece]:
        """The rest, without the silence that fills the last block up."""
        if self.following is None:
            return
        self._front_end.flush(self._slot)
        end = round(self.following * self._ratio)
        for piece in self._stepped():
            frames = piece.frames[: max(0, end - piece.at)]
            yield Piece(piece.at, frames)
        self.following = None

    def _stepped(self) -> Iterator[Piece]:
        while (batch := self._front_end.step()) is not None:
            frames = batch.asr.reshape(-1, 1).copy()
            yield Piece(self._next, frames)
            self._next += len(frames)


def front_end_for(tap: str, config: Config, store: ModelStore) -> StreamFrontEnd:
    """The daemon's front end on the CPU, up to a tap: ``asr`` is all of it, the others are not cleaned."""
    frontend = config.frontend
    if tap != "asr":
        plain = {"denoise": "off", "asr_input": "raw", "vad_input": "raw", "remove_dc": False}
        frontend = frontend.model_copy(update=plain)
    from cosyd.frontend.factory import make_front_end

    return make_front_end(frontend, store)


def source_for(tap: str, source: SourceConfig) -> SourceConfig:
    """``echo``: the first microphone after echo cancellation, without a beam."""
    if tap != "echo" or source.array is None:
        return source
    return source.model_copy(update={"array": source.array.model_copy(update={"beamformer": "off"})})


def open_slot(front_end: StreamFrontEnd, spec: AudioSpec, source: SourceConfig) -> int:
    """A place in the front end for this source."""
    return front_end.open(spec, source.channel_map, source.mix, source.array)


def about(source: SourceConfig, tap: str, reader: RingReader) -> dict[str, object]:
    """What the file beside a recording says of where it came from."""
    device = asdict(reader.spec) | {"format": reader.spec.format.value}
    return {"source": source.name, "tap": tap, "device": device}


def clock(reader: RingReader, sample: int) -> dict[str, object]:
    """When a sample of the source was captured: CLOCK_MONOTONIC in ns and seconds since 1970."""
    t_ns = reader.time_ns(sample)
    ago_s = (time.monotonic_ns() - t_ns) / 1e9
    return {"source_sample": sample, "t_mono_ns": t_ns, "t_wall": time.time() - ago_s}
