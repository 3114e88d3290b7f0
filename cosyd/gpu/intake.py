"""One stream's way to the device: its frames cut into the pieces that the hops take."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cosyd.frontend.clock import FrameClock
from cosyd.frontend.pcm import Mixer
from cosyd.gpu.streams import DTYPES, Ratio, stream_record
from cosyd.spec import FRAME, AudioSpec, SampleFormat

Array = NDArray[Any]


class Pages:
    """A ring's memory as it lies: frame ``i`` of the source clock at ``i % capacity``, all of it twice.

    ``owner``: a view of it, which keeps it mapped.
    """

    def __init__(self, owner: Array, sample: int, capacity: int) -> None:
        frame_bytes = owner.strides[0]
        self.capacity = capacity
        self.nbytes = 2 * capacity * frame_bytes
        self.address = owner.ctypes.data - sample % capacity * frame_bytes
        raw: Any = (ctypes.c_ubyte * self.nbytes).from_address(self.address)
        self._all: Array = np.frombuffer(raw, owner.dtype).reshape(2 * capacity, *owner.shape[1:])
        self._owner = owner

    def holds(self, frames: Array, sample: int) -> bool:
        """Whether these frames are a view of the ring at their place."""
        return bool(frames.ctypes.data == self._all[sample % self.capacity :].ctypes.data)

    def view(self, sample: int, count: int) -> Array:
        start = sample % self.capacity
        return self._all[start : start + count]


class HopCutter:
    """Push frames as they come, take one piece a hop. The kernels mix, convert and resample them.

    ``pages``: the frames pushed lie there and need not be copied. ``dtype`` and ``shape``: of one frame.
    ``finished``: the end was announced. ``history``: the mixed samples before the first piece, which the
    resampler's filter reaches back to; what lies before the stream's first sample is taken to equal it.
    """

    def __init__(
        self,
        spec: AudioSpec,
        channel_map: Sequence[int] | None,
        mix: Literal["first", "mean"],
        ratio: Ratio,
        lead: int,
    ) -> None:
        mapped = tuple(range(spec.channels)) if channel_map is None else tuple(channel_map)
        self.record = stream_record(spec, ratio, mapped[:1] if mix == "first" else mapped)
        self.spec = spec
        self.ratio = ratio
        self._mixer = Mixer(spec.channels, mapped, mix)
        self._lead = lead
        self._clock = FrameClock()
        self._floats = spec.format is SampleFormat.F32
        self._kept: Array | None = None
        self.pages: Pages | None = None
        self.dtype = np.dtype(DTYPES[spec.format])
        self.shape = (spec.channels, 3) if spec.format is SampleFormat.S24 else (spec.channels,)
        self.restart(None)

    @property
    def nonfinite(self) -> int:
        """Samples so far that were NaN or infinite; the kernels make them 0."""
        return self._nonfinite

    def restart(self, sample: int | None) -> None:
        """Forget the audio; the next frame is at ``sample`` of the source clock (None: push says)."""
        self._clock.restart(sample)
        self._nonfinite = 0
        self._next = -self._lead  # first output of the next hop
        self._kept = None  # frames from index _first on
        self._before = np.zeros((0, *self.shape), self.dtype)  # raw: those that only ``history`` was made of
        self._first = 0
        self.history: Array | None = None
        self.finished = False
        self.in_place = False  # the frames kept are a view of ``pages``
        self._last = np.zeros((0, *self.shape), self.dtype)  # frame: held at the end

    @property
    def begun(self) -> bool:
        """Whether its clock is set."""
        return self._clock.begun

    @property
    def origin(self) -> int:
        return self._clock.origin

    def push(self, frames: Array, sample: int) -> None:
        """Take frames [n, channels] (packed 24 bit: uint8 [n, channels, 3]), right after the ones before."""
        if not len(frames):
            return
        self._clock.advance(len(frames), sample)
        self._last = np.array(frames[-1:])
        if self._floats:
            self._nonfinite += int((~np.isfinite(frames)).sum())
        self._append(frames)

    def _append(self, frames: Array) -> None:
        if self._kept is not None:
            self.in_place = self.pages is not None and self._first >= 0
            if self.pages is not None and self.in_place:
                self._kept = self.pages.view(self.origin + self._first, self._clock.received - self._first)
            else:
                self._kept = np.concatenate((self._kept, frames))
            return
        self._first = min(0, self.ratio.end(self._next - 1))
        self._kept = np.concatenate((np.repeat(frames[:1], -self._first, axis=0), frames))

    def take(self) -> Array | None:
        """The frames of the next hop; None when they have not all come. The first call makes ``history``."""
        if self._kept is None:
            return None
        start, stop = self.ratio.end(self._next - 1), self.ratio.end(self._next + FRAME.hop - 1)
        if stop - self._first > len(self._kept):
            return None
        if self.history is None:
            index = np.arange(start - self.ratio.width, start) - self._first
            self.history = self._mixer(self._kept[np.maximum(index, 0)])
            self._before = self._kept[: start - self._first]
        piece = self._kept[start - self._first : stop - self._first]
        self._kept, self._first = self._kept[stop - self._first :], stop
        self._next += FRAME.hop
        return piece

    def piece_start(self, hop: int) -> int:
        """Index, from the first frame pushed, at which the piece of a hop begins; negative before it."""
        return int(self.ratio.end(FRAME.hop * hop - self._lead - 1))

    @property
    def aligned_blocks(self) -> int:
        """Every so many blocks begin at exactly a device frame."""
        return self.ratio.up // int(np.gcd(self.ratio.up, FRAME.block))

    def again(self, pieces: Array, first_hop: int, block: int) -> tuple[Array, int]:
        """Frames from the start of an aligned block on, and the source clock of the first.

        ``pieces``: the frames of the pieces from ``first_hop`` on, one after the other; what was not cut yet
        is added here, what the end was filled up with is left out.
        """
        if self._kept is None:
            return pieces, self.origin
        start = block * FRAME.block * self.ratio.down // self.ratio.up
        parts, base = [pieces, self._kept], self.piece_start(first_hop)
        if first_hop == 0:
            parts, base = [self._before, *parts], min(0, base)
        frames = np.concatenate(parts)[start - base :]
        return frames[: max(0, self._clock.received - start)], self.origin + start

    def finish(self, delay: int) -> None:
        """End of input: hold the last frame until all, ``delay`` later, has come out in whole blocks."""
        self.finished = True
        if self._kept is None or not self._clock.received:
            return
        outputs = -(-self._clock.received * self.ratio.up // self.ratio.down) + delay
        blocks = -(-(outputs + self._lead) // FRAME.block)
        stop = self.ratio.end(blocks * FRAME.block - self._lead - 1)
        short = stop - self._first - len(self._kept)
        if short > 0:
            self.in_place = False
            self._kept = np.concatenate((self._kept, np.repeat(self._last, short, axis=0)))

    def clock(self, output: int) -> int:
        """Source clock of the sample nearest to an output at 16 kHz."""
        return self.origin + (2 * output * self.ratio.down + self.ratio.up) // (2 * self.ratio.up)
