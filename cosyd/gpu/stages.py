"""The stages of a hop on the device: their memory, and the launches of one lane of a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.errors import GpuError
from cosyd.frontend.filters import DC_CORNER_HZ
from cosyd.gpu import pack
from cosyd.gpu.device_array import DeviceArray
from cosyd.gpu.driver import Gpu
from cosyd.gpu.dtln import DtlnKernels, DtlnScratch, DtlnState
from cosyd.gpu.settings import Settings
from cosyd.gpu.streams import STREAM, FilterBank
from cosyd.gpu.weights import UNITS, DtlnWeights, VadWeights
from cosyd.spec import FRAME

Array = NDArray[Any]

RING = 2 * FRAME.window  # as in kernels/common.cuh
LINES = FRAME.hop + 2 * 96 + 4  # floats of a line and its taps: LINE + TAPS of kernels/resample.cu
FEW_CHUNKS = 128  # up to here one stream a block of the VAD: as many blocks as there are multiprocessors


@dataclass(frozen=True)
class Rows:
    """Device addresses of some rows of a step, as kernel arguments; ``step`` and ``pcm`` are two each."""

    capacity: int
    step: tuple[Any, Any]
    pcm: tuple[Any, Any]
    asr: Any
    statistics: Any
    probability: Any
    features: Any


@dataclass
class Lane:
    """CUDA streams, events and scratch memory of one part of a step."""

    main: Any
    side: Any
    copied: Any
    resampled: Any
    joined: Any
    done: Any
    scratch: DtlnScratch | None

    @classmethod
    def open(cls, gpu: Gpu, rows: int) -> Lane:
        """``rows`` 0: no denoiser, no scratch."""
        copied, resampled, joined, done = (gpu.event() for _ in range(4))
        scratch = DtlnScratch(gpu, rows) if rows else None
        return cls(gpu.stream(), gpu.stream(), copied, resampled, joined, done, scratch)


class Stages:
    """State of all slots and weights; ``enqueue`` launches a hop."""

    def __init__(
        self, gpu: Gpu, settings: Settings, filters: FilterBank, vad: VadWeights, dtln: DtlnWeights | None
    ) -> None:
        if settings.denoise and dtln is None:
            raise GpuError("denoising needs DTLN's weights")
        if gpu.constant("resample", "cosyd_stream_bytes") != STREAM.itemsize:
            raise GpuError("kernels/pcm.cuh and cosyd.gpu.streams disagree about struct Stream")
        self._gpu, self.settings, self.filters = gpu, settings, filters
        self._open_state()
        self._open_constants(vad, dtln)

    def _open_state(self) -> None:
        gpu, slots = self._gpu, self.settings.slots
        self.raw = gpu.array((slots, RING))
        self.clean = gpu.array((slots if self.settings.denoise else 1, RING))
        self.history = gpu.array((slots, self.filters.widest))
        self._dc = gpu.array((slots, 2))
        self._vad_state = [gpu.array((slots, UNITS)) for _ in range(2)]
        self.streams = gpu.array((slots,), STREAM)
        self._dtln_state = DtlnState(gpu, slots) if self.settings.denoise else None
        self.clearable = [(self.raw, 1, RING), (self._dc, 1, 2), *((a, 1, UNITS) for a in self._vad_state)]
        if self._dtln_state:
            self.clearable += [(self.clean, 1, RING), *self._dtln_state.arrays()]

    def _open_constants(self, vad: VadWeights, dtln: DtlnWeights | None) -> None:
        gpu = self._gpu
        self._taps = gpu.upload(self.filters.taps)
        self._twiddle = gpu.upload(roots_of_unity(FRAME.window))
        self._vad_blob = gpu.upload(pack.vad_blob(vad))
        self._dtln = None
        if self.settings.denoise and dtln is not None:
            self._dtln = DtlnKernels(gpu, dtln, self.settings.mode, self._twiddle)
        if mel := self.settings.mel:
            table, weights = mel.table()
            self._mel = (gpu.upload(mel.window().astype(np.float32)), gpu.upload(table), gpu.upload(weights))
            self._mel_roots = (
                self._twiddle if mel.fft == FRAME.window else gpu.upload(roots_of_unity(mel.fft))
            )

    def enqueue(self, rows: Rows, lane: Lane) -> None:
        """All kernels of one hop, from ``lane.copied`` on, ending on ``lane.main``."""
        lane.main.wait_for_event(lane.copied)
        lane.side.wait_for_event(lane.copied)
        self._statistics(rows, lane.side)
        self._resample(rows, lane.main)
        lane.resampled.record(lane.main)
        lane.side.wait_for_event(lane.resampled)
        if not self.settings.vad_denoised:
            self._vad(rows, self.raw, lane.side)
        self._denoise(rows, lane.scratch, lane.main)
        if self.settings.vad_denoised:
            self._vad(rows, self.clean, lane.main)
        self._features(rows, lane.main)
        lane.joined.record(lane.side)
        lane.main.wait_for_event(lane.joined)

    def _resample(self, rows: Rows, stream: Any) -> None:
        widest, pole = self.filters.widest, np.exp(-2 * np.pi * DC_CORNER_HZ / FRAME.rate_hz)
        arguments = (
            *rows.step,
            *rows.pcm,
            *(self.streams, self._taps, self.history, np.int32(widest)),
            *(np.float32(pole), np.int32(self.settings.remove_dc), self._dc, self.raw),
        )
        largest = max(widest + self.filters.most_frames, self.filters.most_down * LINES + 4 * FRAME.hop)
        shared = 4 * (FRAME.hop + largest)
        launch = self._gpu.launch
        launch("resample", "resample", (rows.capacity,), FRAME.hop, *arguments, stream=stream, shared=shared)

    def _statistics(self, rows: Rows, stream: Any) -> None:
        tail = (np.float32(self.settings.silence), np.int32(self.settings.channels), rows.statistics)
        arguments = (*rows.step, *rows.pcm, self.streams, *tail)
        self._gpu.launch("stats", "stats", (rows.capacity,), 128, *arguments, stream=stream)

    def _vad(self, rows: Rows, signal: DeviceArray, stream: Any) -> None:
        each = 1 if rows.capacity <= FEW_CHUNKS else 8
        arguments = (
            *rows.step,
            signal,
            np.int32(self.settings.vad_origin),
            self._twiddle,
            self._vad_blob,
            *self._vad_state,
            rows.probability,
        )
        self._gpu.launch("vad", f"vad_{each}", (-(-rows.capacity // each),), 256, *arguments, stream=stream)

    def _denoise(self, rows: Rows, scratch: DtlnScratch | None, stream: Any) -> None:
        if self._dtln is None or self._dtln_state is None or scratch is None:
            arguments = (*rows.step, self.raw, rows.asr)
            self._gpu.launch("resample", "copy_raw", (rows.capacity,), FRAME.hop, *arguments, stream=stream)
            return
        signals = (self.raw, self.clean, int(rows.asr), self.settings.share)
        self._dtln.enqueue(int(rows.step[0]), rows.capacity, self._dtln_state, scratch, *signals, stream)

    def _features(self, rows: Rows, stream: Any) -> None:
        mel, settings = self.settings.mel, self.settings
        if mel is None:
            return
        window, table, weights = self._mel
        arguments = (
            *(*rows.step, self.raw, self.clean),
            *(np.float32(settings.share), np.int32(settings.heard_origin), np.int32(settings.lead)),
            *(window, self._mel_roots, table, weights, np.int32(mel.bins), rows.features),
        )
        self._gpu.launch("fbank", f"fbank_{mel.name}", (rows.capacity,), 128, *arguments, stream=stream)


def roots_of_unity(size: int) -> Array:
    """float32 [size, 2]: exp(-2πik/size)."""
    angle = -2 * np.pi * np.arange(size) / size
    return np.stack((np.cos(angle), np.sin(angle)), axis=1).astype(np.float32)
