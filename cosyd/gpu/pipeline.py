"""One hop of every stream: a host buffer in, one graph launch, a host buffer out.

The graph of a bucket holds the copy to the device, all kernels, and the copy back. Two buffers alternate, so the
host fills the next hop while the device works on this one. All memory is taken when the pipeline opens.

::

    copy in ─ resample ┬ DTLN: 12 kernels ─ log-mel ┬ copy out
                       └ statistics, VAD ───────────┘
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.errors import GpuError
from cosyd.frontend.filters import DC_CORNER_HZ
from cosyd.gpu import pack
from cosyd.gpu.driver import DeviceArray, Gpu, Graph
from cosyd.gpu.dtln import DtlnKernels, DtlnScratch, DtlnState, Mode
from cosyd.gpu.mel import KALDI, MelDesign
from cosyd.gpu.streams import STREAM, Clock, FilterBank, Ratio
from cosyd.gpu.weights import UNITS, DtlnWeights, VadWeights
from cosyd.spec import FRAME

Array = NDArray[Any]

RING = 2 * FRAME.window  # as in kernels/common.cuh
HEADER = 16  # ints before the header's columns
COLUMNS = 5  # slot, hop, frames, phase, vad_row
BUCKETS = (1, 8, 64, 256, 1024, 2048)  # then doubling: a step costs at most twice what its rows need
FEW_CHUNKS = 128  # up to here one stream a block of the VAD: as many blocks as there are multiprocessors
BUFFERS = 2  # one is filled while the other is on the device
_ALIGN = 256  # of the PCM in the buffer


def buckets(slots: int) -> tuple[int, ...]:
    """Capacities for which graphs are captured, the last of them ``slots``."""
    sizes = [size for size in BUCKETS if size < slots]
    while (size := (sizes[-1] if sizes else 1) * 2) < slots and slots > BUCKETS[-1]:
        sizes.append(size)
    return (*sizes, slots)


@dataclass(frozen=True)
class Settings:
    """What the pipeline computes."""

    slots: int
    mode: Mode = "fp32"
    denoise: bool = True
    blend: float = 1.0  # share of the denoised signal in what the recogniser and the features hear
    vad_denoised: bool = False
    remove_dc: bool = True
    mel: MelDesign | None = KALDI
    channels: int = 2  # most channels of a stream
    sample_bytes: int = 4  # of the widest format
    rates_hz: tuple[int, ...] = (16_000, 44_100, 48_000)
    silence: float = 1e-3  # -60 dBFS: samples below count as silent

    @property
    def lead(self) -> int:
        """Samples before time 0 with which a stream begins, so that blocks come out at whole blocks."""
        return -self.trail % FRAME.block

    @property
    def trail(self) -> int:
        """Samples by which the recogniser's signal trails the input."""
        return FRAME.window - FRAME.hop if self.denoise else 0


@dataclass(frozen=True)
class HopResult:
    """Host views of one step, valid until the step after the next begins."""

    asr: Array  # float32 [n, hop]: what the recogniser hears
    vad_rows: Array  # rows whose chunk ended with this hop
    vad_prob: Array  # float32 [len(vad_rows)]
    statistics: Array  # float32 [n, channels, 4]; see kernels/stats.cu


@dataclass
class _Buffer:
    """Page-locked memory of one step and its twin on the device."""

    host_in: Array
    host_out: Array
    device_in: DeviceArray
    device_out: DeviceArray
    features: DeviceArray
    done: Any
    graphs: dict[int, Graph] = field(default_factory=dict)
    rows: Array = field(default_factory=lambda: np.zeros(0, np.intp))
    vad_rows: Array = field(default_factory=lambda: np.zeros(0, np.intp))
    capacity: int = 0


class Pipeline:
    """All streams on one device. Opens in ``__enter__``; used by one thread."""

    def __init__(
        self,
        gpu: Gpu,
        settings: Settings,
        vad: VadWeights,
        dtln: DtlnWeights | None,
        filters: FilterBank | None = None,
    ) -> None:
        if settings.denoise and dtln is None:
            raise GpuError("denoising needs DTLN's weights")
        self.settings = settings
        self.filters = filters or FilterBank(settings.rates_hz)
        self.clock = Clock(settings.slots)
        self.buckets = buckets(settings.slots)
        self._gpu, self._vad_weights, self._dtln_weights = gpu, vad, dtln
        frame_bytes = settings.channels * settings.sample_bytes
        # Index of time 0 in the signal that the VAD hears.
        self._vad_origin = settings.lead + (settings.trail if settings.vad_denoised else 0)
        self.stride = -(-self.filters.most_frames * frame_bytes // 16) * 16
        self._stack = ExitStack()
        self._turn = 0

    # --- opening -----------------------------------------------------------------------------------------

    def __enter__(self) -> Pipeline:
        gpu, slots = self._gpu, self.settings.slots
        if gpu.constant("resample", "cosyd_stream_bytes") != STREAM.itemsize:
            raise GpuError("kernels/pcm.cuh and cosyd.gpu.streams disagree about struct Stream")
        self._stream, self._side, self._fork, self._resampled, self._join = (
            *(gpu.stream() for _ in range(2)),
            *(gpu.event() for _ in range(3)),
        )
        self._open_state(slots)
        self._open_constants()
        self._scratch = DtlnScratch(gpu, slots) if self.settings.denoise else None
        self._probability = gpu.array((slots,))
        self._buffers = [self._open_buffer() for _ in range(BUFFERS)]
        self._stage_streams = gpu.pinned(slots * STREAM.itemsize).view(STREAM)
        self._stage_history = gpu.pinned(4 * slots * self.filters.widest).view(np.float32).reshape(slots, -1)
        self._stage_which = gpu.pinned(4 * slots).view(np.int32)
        self._staged = gpu.event()
        gpu.cuda.Context.synchronize()
        for buffer in self._buffers:
            for capacity in self.buckets:
                buffer.graphs[capacity] = self._capture(buffer, capacity)
                self._stack.callback(buffer.graphs[capacity].close)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Idempotent."""
        self._gpu.cuda.Context.synchronize()
        self._stack.close()

    def _open_state(self, slots: int) -> None:
        gpu = self._gpu
        self.raw, self.clean = (
            gpu.array((slots, RING)),
            gpu.array((slots if self.settings.denoise else 1, RING)),
        )
        self._history = gpu.array((slots, self.filters.widest))
        self._dc = gpu.array((slots, 2))
        self._vad_state = [gpu.array((slots, UNITS)) for _ in range(2)]
        self._streams = gpu.array((slots,), STREAM)
        self._which = gpu.array((slots,), np.int32)
        self._dtln_state = DtlnState(gpu, slots) if self.settings.denoise else None
        self._clearable = [(self.raw, 1, RING), (self._dc, 1, 2), *((a, 1, UNITS) for a in self._vad_state)]
        if self._dtln_state:
            self._clearable += [(self.clean, 1, RING), *self._dtln_state.arrays()]

    def _open_constants(self) -> None:
        gpu = self._gpu
        self._taps = gpu.upload(self.filters.taps)
        self._twiddle = gpu.upload(roots_of_unity(FRAME.window))
        self._vad_blob = gpu.upload(pack.vad_blob(self._vad_weights))
        self._dtln = None
        if self.settings.denoise and self._dtln_weights is not None:
            self._dtln = DtlnKernels(gpu, self._dtln_weights, self.settings.mode, self._twiddle)
        if mel := self.settings.mel:
            table, weights = mel.table()
            self._mel = (gpu.upload(mel.window().astype(np.float32)), gpu.upload(table), gpu.upload(weights))
            self._mel_roots = (
                self._twiddle if mel.fft == FRAME.window else gpu.upload(roots_of_unity(mel.fft))
            )

    def _open_buffer(self) -> _Buffer:
        settings, gpu = self.settings, self._gpu
        size_in = pcm_offset(settings.slots) + settings.slots * self.stride
        size_out = 4 * self._out_floats(settings.slots)
        bins = settings.mel.bins if settings.mel else 1
        return _Buffer(
            gpu.pinned(size_in),
            gpu.pinned(size_out).view(np.float32),
            gpu.array((size_in,), np.uint8),
            gpu.array((size_out // 4,)),
            gpu.array((settings.slots, bins)),
            gpu.event(),
        )

    def _out_floats(self, capacity: int) -> int:
        """The recogniser's hop, statistics (16-byte aligned), probability."""
        return capacity * (FRAME.hop + 1 + 4 * self.settings.channels)

    # --- the graph ---------------------------------------------------------------------------------------

    def _capture(self, buffer: _Buffer, capacity: int) -> Graph:
        with self._gpu.capture(self._stream) as graph:
            self.enqueue(buffer, capacity)
        return graph

    def enqueue(self, buffer: _Buffer, capacity: int) -> None:
        """A step's copies and kernels, on the main stream and one beside it."""
        cuda, main, side = self._gpu.cuda, self._stream, self._side
        size_in = pcm_offset(capacity) + capacity * self.stride
        size_out = self._out_floats(capacity)
        cuda.memcpy_htod_async(buffer.device_in.address, buffer.host_in[:size_in], main)
        self._fork.record(main)
        side.wait_for_event(self._fork)
        self._launch_statistics(buffer, capacity, side)
        self._launch_resample(buffer, capacity, main)
        self._resampled.record(main)
        side.wait_for_event(self._resampled)
        if not self.settings.vad_denoised:
            self._launch_vad(buffer, capacity, self.raw, side)
        self._launch_denoise(buffer, capacity, main)
        if self.settings.vad_denoised:
            self._launch_vad(buffer, capacity, self.clean, main)
        self._launch_features(buffer, capacity, main)
        self._join.record(side)
        main.wait_for_event(self._join)
        cuda.memcpy_dtoh_async(buffer.host_out[:size_out], buffer.device_out.address, main)

    def _rows(self, buffer: _Buffer, capacity: int) -> tuple[Any, Any]:
        return np.uintp(buffer.device_in.address), np.int32(capacity)

    def _pcm(self, buffer: _Buffer, capacity: int) -> tuple[Any, Any]:
        return np.uintp(buffer.device_in.address + pcm_offset(capacity)), np.int32(self.stride)

    def _launch_resample(self, buffer: _Buffer, capacity: int, stream: Any) -> None:
        widest, settings = self.filters.widest, self.settings
        room = widest + self.filters.most_frames
        pole = np.float32(np.exp(-2 * np.pi * DC_CORNER_HZ / FRAME.rate_hz))
        arguments = (
            *self._rows(buffer, capacity),
            *self._pcm(buffer, capacity),
            *(self._streams, self._taps, self._history),
            *(np.int32(widest), np.int32(room), pole, np.int32(settings.remove_dc)),
            *(self._dc, self.raw),
        )
        shared = 4 * (room + FRAME.hop)
        self._gpu.launch(
            "resample", "resample", (capacity,), FRAME.hop, *arguments, stream=stream, shared=shared
        )

    def _launch_statistics(self, buffer: _Buffer, capacity: int, stream: Any) -> None:
        out = buffer.device_out.address + 4 * capacity * FRAME.hop
        tail = (np.float32(self.settings.silence), np.int32(self.settings.channels), np.uintp(out))
        arguments = (*self._rows(buffer, capacity), *self._pcm(buffer, capacity), self._streams, *tail)
        self._gpu.launch("stats", "stats", (capacity,), 128, *arguments, stream=stream)

    def _launch_vad(self, buffer: _Buffer, capacity: int, signal: DeviceArray, stream: Any) -> None:
        rows = 1 if capacity <= FEW_CHUNKS else 8
        out = np.uintp(buffer.device_out.address + 4 * capacity * (FRAME.hop + 4 * self.settings.channels))
        arguments = (
            *self._rows(buffer, capacity),
            signal,
            np.int32(self._vad_origin),
            self._twiddle,
            self._vad_blob,
            *self._vad_state,
            out,
        )
        self._gpu.launch("vad", f"vad_{rows}", (-(-capacity // rows),), 256, *arguments, stream=stream)

    def _launch_denoise(self, buffer: _Buffer, capacity: int, stream: Any) -> None:
        header, out = buffer.device_in.address, buffer.device_out.address
        if self._dtln is None or self._dtln_state is None or self._scratch is None:
            arguments = (*self._rows(buffer, capacity), self.raw, np.uintp(out))
            self._gpu.launch("resample", "copy_raw", (capacity,), FRAME.hop, *arguments, stream=stream)
            return
        signals = (self.raw, self.clean, out, self.settings.blend)
        self._dtln.enqueue(header, capacity, self._dtln_state, self._scratch, *signals, stream)

    def _launch_features(self, buffer: _Buffer, capacity: int, stream: Any) -> None:
        mel, settings = self.settings.mel, self.settings
        if mel is None:
            return
        blend = settings.blend if settings.denoise else 0.0
        delay = settings.lead + (settings.trail if blend > 0 else 0)
        window, table, weights = self._mel
        arguments = (
            *(*self._rows(buffer, capacity), self.raw, self.clean),
            *(np.float32(blend), np.int32(delay), np.int32(settings.lead)),
            *(window, self._mel_roots, table, weights, np.int32(mel.bins), buffer.features),
        )
        self._gpu.launch("fbank", f"fbank_{mel.name}", (capacity,), 128, *arguments, stream=stream)

    # --- streams -----------------------------------------------------------------------------------------

    def join(self, slots: Array, records: Array, ratios: Sequence[Ratio], history: Array) -> None:
        """Streams begin in ``slots``: state cleared, formats and primed filter history [n, widest] in place.

        Ordered after the steps launched so far; other slots are not touched and no graph changes.
        """
        cuda, stream = self._gpu.cuda, self._stream
        self._staged.synchronize()  # the last join's copies have left the staging memory
        self._stage_streams[slots], self._stage_history[slots] = records, history
        self._stage_which[: len(slots)] = slots
        cuda.memcpy_htod_async(self._which.address, self._stage_which[: len(slots)], stream)
        for array, planes, width in self._clearable:
            grid = (len(slots), planes)
            arguments = (self._which, np.int32(self.settings.slots), np.int32(width), array)
            self._gpu.launch("slots", "clear_slots", grid, 256, *arguments, stream=stream)
        for first, last in _runs(slots):
            at = (
                self._streams.address + first * STREAM.itemsize,
                self._history.address + 4 * first * self.filters.widest,
            )
            cuda.memcpy_htod_async(at[0], self._stage_streams[first:last], stream)
            cuda.memcpy_htod_async(at[1], self._stage_history[first:last], stream)
        self._staged.record(stream)
        self.clock.start(slots, ratios, self.settings.lead)

    # --- a hop -------------------------------------------------------------------------------------------

    def begin(self, slots: Array) -> Array:
        """Prepare a hop of these streams. Returns uint8 [n, stride]: write each row's frames to its start.

        Row i takes ``clock.frames(slots)[i]`` frames. Waits if both buffers are on the device.
        """
        buffer = self._buffers[self._turn]
        buffer.done.synchronize()
        n = len(slots)
        capacity = next(size for size in self.buckets if size >= n)
        clock = self.clock
        hop = clock.hop[slots]
        heard = hop + 1 - self._vad_origin // FRAME.hop
        buffer.rows, buffer.capacity = slots, capacity
        buffer.vad_rows = np.flatnonzero((heard > 0) & (heard % FRAME.block_hops == 0))
        head = buffer.host_in[: pcm_offset(capacity)].view(np.int32)
        head[0], head[1] = n, len(buffer.vad_rows)
        columns = head[HEADER : HEADER + COLUMNS * capacity].reshape(COLUMNS, capacity)
        columns[0, :n], columns[1, :n] = slots, hop
        columns[2, :n], columns[3, :n] = clock.frames(slots), clock.phase(slots)
        columns[4, : len(buffer.vad_rows)] = buffer.vad_rows
        start = pcm_offset(capacity)
        return buffer.host_in[start : start + n * self.stride].reshape(n, self.stride)

    def launch(self) -> int:
        """Start the hop that ``begin`` prepared; returns a ticket for ``collect``."""
        buffer, ticket = self._buffers[self._turn], self._turn
        buffer.graphs[buffer.capacity].launch(self._stream)
        buffer.done.record(self._stream)
        self.clock.advance(buffer.rows)
        self._turn = (self._turn + 1) % BUFFERS
        return ticket

    def collect(self, ticket: int) -> HopResult:
        """Wait for a launched hop and give its results."""
        buffer = self._buffers[ticket]
        buffer.done.synchronize()
        n, capacity = len(buffer.rows), buffer.capacity
        out, first = buffer.host_out, FRAME.hop * capacity
        second = first + 4 * self.settings.channels * capacity
        statistics = out[first:second].reshape(capacity, -1, 4)
        probability = out[second : second + capacity][buffer.vad_rows]
        return HopResult(
            out[:first].reshape(capacity, FRAME.hop)[:n], buffer.vad_rows, probability, statistics[:n]
        )

    def kernel_times(self, repeats: int = 10) -> dict[str, float]:
        """Milliseconds of each kernel of the step that ``begin`` prepared, launched one by one; for measuring.

        The same hop is run again and again: the slots' states mean nothing afterwards.
        """
        buffer, totals = self._buffers[self._turn], dict[str, float]()
        for _ in range(repeats):
            with self._gpu.tracing() as trace:
                self.enqueue(buffer, buffer.capacity)
            for name, milliseconds in trace():
                totals[name] = totals.get(name, 0.0) + milliseconds / repeats
        return totals

    def features(self, ticket: int) -> DeviceArray:
        """Log-mel frames of a hop, on the device: [rows, bins]; rows without a new frame hold an old one."""
        return self._buffers[ticket].features


def pcm_offset(capacity: int) -> int:
    """Bytes of the header in a step's buffer, rounded up."""
    return -(-4 * (HEADER + COLUMNS * capacity) // _ALIGN) * _ALIGN


def roots_of_unity(size: int) -> Array:
    """float32 [size, 2]: exp(-2πik/size)."""
    angle = -2 * np.pi * np.arange(size) / size
    return np.stack((np.cos(angle), np.sin(angle)), axis=1).astype(np.float32)


def _runs(slots: Array) -> list[tuple[int, int]]:
    """Runs [first, last) of consecutive numbers."""
    ordered = np.sort(slots)
    ends = np.flatnonzero(np.diff(ordered) != 1) + 1
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(ordered, ends)]
