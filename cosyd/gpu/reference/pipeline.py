"""The pipeline of cosyd.gpu.pipeline in float64 NumPy, one stream after the other: same calls, same hops.

It stands for the device where there is none, so that everything the host does (slots, joins, backlog,
routing, what happens when a step fails) is tested anywhere.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.frontend.filters import DC_CORNER_HZ
from cosyd.frontend.pcm import to_float
from cosyd.frontend.resample import design
from cosyd.gpu.buffers import HopResult
from cosyd.gpu.pipeline import BUFFERS
from cosyd.gpu.reference.networks import Dtln, Vad
from cosyd.gpu.settings import Settings
from cosyd.gpu.streams import DTYPES, FORMATS, Clock, FilterBank, Ratio, row_bytes
from cosyd.spec import FRAME, SampleFormat

Array = NDArray[Any]
SHIFT = 1 << 50  # from an address here to the device's, which need not be the same
POLE = float(np.exp(-2 * np.pi * DC_CORNER_HZ / FRAME.rate_hz))
_NAMES = {code: form for form, code in FORMATS.items()}


class _Stream:
    """All state of one slot."""

    def __init__(self, record: Any, ratio: Ratio, history: Array, denoiser: Dtln | None, vad: Vad) -> None:
        self.record, self.ratio, self.denoiser, self.vad = record, ratio, denoiser, vad
        self.history = history[: ratio.width].astype(np.float64)
        self.dc: tuple[float, float] | None = None
        self.raw = np.zeros(2 * FRAME.window)  # newest last
        self.clean = np.zeros(2 * FRAME.window)

    def hear(self, pcm: Array, phase: int, remove_dc: bool) -> None:
        """One hop of device frames through mixing, resampling and DC removal."""
        x = np.concatenate((self.history, self._mixed(pcm)))
        self.history = x[len(x) - self.ratio.width :]
        hop = self._resampled(x, phase)
        self.raw = np.concatenate((self.raw[FRAME.hop :], self._without_dc(hop) if remove_dc else hop))

    def _mixed(self, pcm: Array) -> Array:
        channels, form = int(self.record["channels"]), _NAMES[int(self.record["format"])]
        shape = (-1, channels, 3) if form is SampleFormat.S24 else (-1, channels)
        frames: Array = pcm.view(DTYPES[form]).reshape(shape)
        mask = int(np.array(self.record["mapped"]).view(np.uint32))
        mapped = [c for c in range(channels) if mask >> c & 1]
        values = np.stack([to_float(frames[:, c]) for c in mapped]).astype(np.float64)
        return np.asarray(np.where(np.isfinite(values), values, 0).mean(axis=0))

    def _resampled(self, x: Array, phase: int) -> Array:
        ratio = self.ratio
        taps = design(ratio.rate_hz, FRAME.rate_hz).astype(np.float64)
        times = phase + (np.arange(FRAME.hop) + 1) * ratio.down
        windows = times[:, None] // ratio.up + np.arange(ratio.width)
        return np.asarray(np.einsum("kt,kt->k", x[windows], taps[times % ratio.up]))

    def _without_dc(self, x: Array) -> Array:
        before, last = self.dc or (x[0], 0.0)
        y = np.empty_like(x)
        for n, value in enumerate(x):
            last = value - before + POLE * last
            y[n], before = last, value
        self.dc = before, last
        return y


class ReferencePipeline:
    """See cosyd.gpu.pipeline.Pipeline. ``denoiser`` and ``vad`` make the networks of one stream."""

    def __init__(
        self, settings: Settings, vad: Callable[[], Vad], denoiser: Callable[[], Dtln] | None
    ) -> None:
        self.settings = settings
        self.filters = FilterBank(settings.rates_hz)
        self.clock = Clock(settings.slots)
        self.stride = row_bytes(self.filters, settings.frame_bytes)
        self._make = vad, denoiser
        self._streams: dict[int, _Stream] = {}
        self._slots = np.zeros(0, np.intp)
        self._pcm = np.zeros((settings.slots, self.stride), np.uint8)
        self._results: dict[int, HopResult] = {}
        self._turn = 0
        self.registered: dict[int, int] = {}
        self.closed = False

    def join(self, slots: Array, records: Array, ratios: Sequence[Ratio], history: Array) -> None:
        for slot, record, ratio, primed in zip(slots, records, ratios, history, strict=True):
            vad, denoiser = self._make
            made = denoiser() if denoiser else None
            self._streams[int(slot)] = _Stream(record, ratio, primed, made, vad())
        self.clock.start(slots, ratios, self.settings.lead)

    def register(self, address: int, nbytes: int) -> int:
        self.registered[address] = nbytes
        return address + SHIFT

    def unregister(self, address: int) -> None:
        del self.registered[address]

    def begin(self, slots: Array, addresses: Array | None = None) -> Array:
        self._slots = slots
        self._addresses = np.zeros(len(slots), np.int64) if addresses is None else addresses
        return self._pcm[: len(slots)]

    def launch(self) -> int:
        """Computes at once."""
        slots, settings = self._slots, self.settings
        heard = self.clock.hop[slots] + 1 - settings.vad_origin // FRAME.hop
        rows = np.flatnonzero((heard > 0) & (heard % FRAME.block_hops == 0))
        frames, phases = self.clock.frames(slots), self.clock.phase(slots)
        asr = np.empty((len(slots), FRAME.hop), np.float32)
        for row, slot in enumerate(slots):
            stream = self._streams[int(slot)]
            length = int(frames[row]) * _frame_bytes(stream.record)
            stream.hear(self._frames(row, length), int(phases[row]), settings.remove_dc)
            asr[row] = self._denoised(stream)
        probabilities = [self._probability(self._streams[int(slots[row])]) for row in rows]
        self.clock.advance(slots)
        nothing = np.zeros((len(slots), settings.channels, 4), np.float32)
        ticket, self._turn = self._turn, (self._turn + 1) % BUFFERS
        self._results[ticket] = HopResult(asr, rows, np.array(probabilities, np.float32), nothing)
        return ticket

    def _frames(self, row: int, length: int) -> Array:
        """A row's bytes, from the step's buffer or from where they lie."""
        if address := int(self._addresses[row]):
            return np.frombuffer(ctypes.string_at(address - SHIFT, length), np.uint8)
        return self._pcm[row, :length].copy()

    def collect(self, ticket: int) -> HopResult:
        return self._results[ticket]

    def close(self) -> None:
        self.closed = True

    def _denoised(self, stream: _Stream) -> Array:
        if stream.denoiser is None:
            return stream.raw[-FRAME.hop :]
        hop = stream.denoiser(stream.raw[-FRAME.hop :])
        stream.clean = np.concatenate((stream.clean[FRAME.hop :], hop))
        late = stream.raw[-FRAME.hop - self.settings.trail : len(stream.raw) - self.settings.trail]
        share = self.settings.share
        return np.asarray(share * hop + (1 - share) * late)

    def _probability(self, stream: _Stream) -> float:
        signal = stream.clean if self.settings.vad_denoised else stream.raw
        return stream.vad(signal[-FRAME.block :])


def _frame_bytes(record: Any) -> int:
    return int(record["channels"]) * _NAMES[int(record["format"])].sample_bytes
