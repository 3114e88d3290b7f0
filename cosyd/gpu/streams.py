"""What the host keeps of each stream: its format, its filter, and how many frames the next hop takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.errors import UnsupportedFormat
from cosyd.frontend.resample import design
from cosyd.spec import FRAME, AudioSpec, SampleFormat

Array = NDArray[Any]

RATES_HZ = (8_000, 11_025, 16_000, 22_050, 32_000, 44_100, 48_000, 96_000)
FORMATS = {SampleFormat.S16: 0, SampleFormat.S32: 1, SampleFormat.F32: 2, SampleFormat.S24: 3}
DTYPES = {  # of one sample; packed 24 bit are three bytes
    SampleFormat.S16: "<i2",
    SampleFormat.S24: "u1",
    SampleFormat.S32: "<i4",
    SampleFormat.F32: "<f4",
}
MOST_CHANNELS = 32  # the kernel's channel mask is one word

# Mirrors struct Stream of kernels/pcm.cuh.
STREAM = np.dtype(
    [(name, np.int32) for name in ("taps", "width", "up", "down", "channels", "format", "mapped", "pad")]
)

HOP_WRAP = 1_000_000  # 2 h 13 min; far below where sample indices leave int32
HOP_STEP = 40 * 24_998  # a multiple of 8 hops (the rings) and of 5 (10 ms frames)


@dataclass(frozen=True)
class Ratio:
    """One input rate: output k lies at input time k · down / up and takes ``width`` taps."""

    rate_hz: int
    up: int
    down: int
    width: int
    offset: int  # of its taps in the bank

    @property
    def before(self) -> int:
        """Taps before an output's own sample."""
        return self.width // 2 - (self.width > 1)

    def end(self, output: int | Array) -> Any:
        """Input samples that outputs up to and including this one take, counted from time 0."""
        return output * self.down // self.up - self.before + self.width

    @property
    def most_frames(self) -> int:
        """Most input frames that one hop takes."""
        return FRAME.hop * self.down // self.up + (self.up > 1)


class FilterBank:
    """The taps of several rates in one array, each transposed to [width, up] as the kernel reads them."""

    def __init__(self, rates: Sequence[int] = RATES_HZ) -> None:
        self.ratios: dict[int, Ratio] = {}
        parts: list[Array] = []
        offset = 0
        for rate in rates:
            taps = design(rate, FRAME.rate_hz)
            common = int(np.gcd(rate, FRAME.rate_hz))
            up, down = FRAME.rate_hz // common, rate // common
            if up > 1 and len(taps) - 1 != up:
                raise UnsupportedFormat(
                    f"{rate} Hz to {FRAME.rate_hz} Hz needs {up} filters: too many for the GPU"
                )
            parts.append(np.ascontiguousarray(taps[:up].T).reshape(-1))
            self.ratios[rate] = Ratio(rate, up, down, taps.shape[1], offset)
            offset += len(parts[-1])
        self.taps = np.concatenate(parts).astype(np.float32)
        self.widest = max(ratio.width for ratio in self.ratios.values())
        whole = (ratio.down for ratio in self.ratios.values() if ratio.up == 1)
        self.most_down = max(whole, default=1)  # of ratios with one phase
        self.most_frames = max(ratio.most_frames for ratio in self.ratios.values())

    def ratio(self, rate_hz: int) -> Ratio:
        if rate_hz not in self.ratios:
            raise UnsupportedFormat(f"{rate_hz} Hz is not among the GPU's rates {sorted(self.ratios)}")
        return self.ratios[rate_hz]


def row_bytes(filters: FilterBank, frame_bytes: int) -> int:
    """Room for the frames of one hop at the highest rate, a multiple of 16."""
    return -(-filters.most_frames * frame_bytes // 16) * 16


def stream_record(spec: AudioSpec, ratio: Ratio, mapped: Sequence[int]) -> Any:
    """The kernel's description of a stream (np.void of STREAM). ``mapped``: channels of the mean."""
    if spec.channels > MOST_CHANNELS or not mapped or not all(0 <= c < spec.channels for c in mapped):
        raise UnsupportedFormat(
            f"channels {list(mapped)} of {spec.channels}: the GPU takes up to {MOST_CHANNELS}"
        )
    record = np.zeros(1, STREAM)
    mask = int(np.bitwise_or.reduce([np.uint32(1) << np.uint32(c) for c in mapped]))
    values = (ratio.offset, ratio.width, ratio.up, ratio.down, spec.channels, FORMATS[spec.format])
    record[0] = (*values, np.array(mask, np.uint32).view(np.int32), 0)
    return record[0]


class Clock:
    """Positions of all slots in one int32 table: the columns that a step's header takes, kept ready.

    Rows of ``table``: slot, hop, frames that the next hop takes, phase (the numerator of the position of the
    output before the hop; see Ratio).
    """

    def __init__(self, slots: int) -> None:
        self.table = np.zeros((4, slots), np.int32)
        self.table[0] = np.arange(slots)
        self.hop, self._frames, self._phase = self.table[1:]
        self._up = np.ones(slots, np.int32)
        self._step = np.full(slots, FRAME.hop, np.int32)  # HOP · down
        self._fractional = False  # some ratio has more than one phase

    def start(self, slots: Array, ratios: Sequence[Ratio], lead: int) -> None:
        """Streams begin in these slots, ``lead`` outputs before time 0."""
        up, down = (np.array([getattr(r, name) for r in ratios], np.int32) for name in ("up", "down"))
        self._up[slots], self._step[slots] = up, FRAME.hop * down
        self._fractional = self._fractional or bool((up > 1).any())
        self.hop[slots] = 0
        self._set_phase(slots, (-lead - 1) * down % up)

    def _set_phase(self, slots: Array, phase: Array) -> None:
        self._phase[slots] = phase
        self._frames[slots] = (phase + self._step[slots]) // self._up[slots]

    def phase(self, slots: Array) -> Array:
        return np.asarray(self._phase[slots])

    def frames(self, slots: Array) -> Array:
        """Device frames that the next hop takes."""
        return np.asarray(self._frames[slots])

    def advance(self, slots: Array) -> None:
        """A hop of these slots has been launched."""
        self.hop[slots] += 1
        if int(self.hop.max()) >= HOP_WRAP:
            self.hop[self.hop >= HOP_WRAP] -= HOP_STEP
        if self._fractional:
            part = slots[self._up[slots] > 1]
            self._set_phase(part, (self._phase[part] + self._step[part]) % self._up[part])
