"""One hop of every stream: a host buffer in, one graph launch, a host buffer out.

The graph of a bucket holds the copies to the device, all kernels, and the copies back. Two buffers
alternate, so the host fills the next hop while the device works on this one. All memory is taken when the
pipeline opens.

::

    copy in ─ resample ┬ DTLN: 11 kernels ─ log-mel ┬ copy out
                       └ statistics, VAD ───────────┘

A large bucket is several such lanes of CHUNK rows in one graph: copies of one overlap kernels of another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.engine.memory import Buffer
from cosyd.errors import GpuError
from cosyd.gpu.buffers import HopResult, StepBuffer
from cosyd.gpu.device_array import DeviceArray
from cosyd.gpu.driver import Gpu
from cosyd.gpu.graph import Graph
from cosyd.gpu.layout import FEW, Layout, buckets, lanes, write_header
from cosyd.gpu.settings import Settings
from cosyd.gpu.stages import Lane, Rows, Stages
from cosyd.gpu.streams import STREAM, Clock, FilterBank, Ratio, row_bytes, stream_record
from cosyd.gpu.weights import DtlnWeights, VadWeights
from cosyd.spec import FRAME, AudioSpec, SampleFormat

Array = NDArray[Any]

BUFFERS = 2  # one is filled while the other is on the device


class Pipeline:
    """All streams on one device. Opens in ``__enter__``; used by one thread."""

    def __init__(self, gpu: Gpu, settings: Settings, vad: VadWeights, dtln: DtlnWeights | None) -> None:
        self.settings = settings
        self.filters = FilterBank(settings.rates_hz)
        self.clock = Clock(settings.slots)
        self.buckets = buckets(settings.slots)
        self.stride = row_bytes(self.filters, settings.frame_bytes)
        self._gpu, self._weights = gpu, (vad, dtln)
        self._stack = ExitStack()
        self._layouts: dict[int, Layout] = {}
        self._turn = 0

    # --- opening -----------------------------------------------------------------------------------------

    def __enter__(self) -> Pipeline:
        try:
            with self._gpu.collecting() as arrays, self._gpu.translated("opening the front end"):
                self._stack.callback(_free, arrays)
                self._open()
        except GpuError:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Waits for the device, then gives back graphs and memory. Idempotent; a dead device is no error."""
        if self._gpu.settle(self):
            self._stack.close()
        else:
            self._stack.pop_all()

    def _open(self) -> None:
        gpu, settings, slots = self._gpu, self.settings, self.settings.slots
        self.stages = Stages(gpu, settings, self.filters, *self._weights)
        self._stream = gpu.stream()
        self._lanes = [Lane.open(gpu, rows if settings.denoise else 0) for _, rows in lanes(slots)]
        self._buffers = [self._open_buffer() for _ in range(BUFFERS)]
        self._which = gpu.array((slots,), np.int32)
        self._stage_streams = gpu.pinned(slots * STREAM.itemsize).view(STREAM)
        self._stage_history = gpu.pinned(4 * slots * self.filters.widest).view(np.float32).reshape(slots, -1)
        self._stage_which = gpu.pinned(4 * slots).view(np.int32)
        self._staged = gpu.event()
        gpu.cuda.Context.synchronize()  # what was set up on the default stream is there for all others
        for buffer in self._buffers:
            for capacity in self.buckets:
                for lent in (False, True) if settings.lent else (False,):
                    graph = buffer.graphs[capacity, lent] = self._capture(buffer, capacity, lent)
                    self._stack.callback(graph.close)

    def _open_buffer(self) -> StepBuffer:
        settings, gpu, layout = self.settings, self._gpu, self._layout(self.settings.slots)
        bins = settings.mel.bins if settings.mel else 1
        return StepBuffer(
            gpu.pinned(layout.in_bytes),
            gpu.pinned(4 * layout.out_floats).view(np.float32),
            gpu.array((layout.in_bytes,), np.uint8),
            gpu.array((layout.out_floats,)),
            gpu.array((settings.slots, bins)),
            gpu.event(),
        )

    # --- the graph ---------------------------------------------------------------------------------------

    def _capture(self, buffer: StepBuffer, capacity: int, lent: bool) -> Graph:
        with self._gpu.capture(self._stream) as graph:
            self.enqueue(buffer, capacity, lent)
        return graph

    def enqueue(self, buffer: StepBuffer, capacity: int, lent: bool = False) -> None:
        """A step's copies and kernels, from and back to the main stream. ``lent``: no PCM is copied."""
        main, layout = self._stream, self._layout(capacity)
        for index, (lane, (first, rows)) in enumerate(zip(self._lanes, layout.lanes, strict=False)):
            for part in layout.in_parts(index, lent):
                copy = (buffer.device_in.address + part.start, buffer.host_in[part])
                self._gpu.cuda.memcpy_htod_async(*copy, main)
            lane.copied.record(main)
            self.stages.enqueue(self._rows(buffer, layout, index), lane)
            for part in layout.out_copies(first, rows) if capacity > FEW else ():
                copy_out = (buffer.host_out[part], buffer.device_out.address + 4 * part.start)
                self._gpu.cuda.memcpy_dtoh_async(*copy_out, lane.main)
            lane.done.record(lane.main)
        for lane in self._lanes[: len(layout.lanes)]:
            main.wait_for_event(lane.done)

    def _rows(self, buffer: StepBuffer, layout: Layout, index: int) -> Rows:
        """Addresses of one lane."""
        first, rows = layout.lanes[index]
        into, out = buffer.device_in.address, buffer.device_out.address
        if layout.capacity <= FEW:  # page-locked memory has the same address on the device
            out = buffer.host_out.ctypes.data
        parts = layout.out_parts(first, rows)
        asr, statistics, probability = (np.uintp(out + 4 * part.start) for part in parts)
        row_bytes = buffer.features.nbytes // buffer.features.shape[0]
        return Rows(
            rows,
            (np.uintp(into + index * layout.header_bytes), np.int32(rows)),
            (np.uintp(into + layout.pcm_part(first, rows).start), np.int32(layout.stride)),
            asr,
            statistics,
            probability,
            np.uintp(buffer.features.address + first * row_bytes),
        )

    def _layout(self, capacity: int) -> Layout:
        if capacity not in self._layouts:
            self._layouts[capacity] = Layout(capacity, self.stride, self.settings.channels)
        return self._layouts[capacity]

    # --- streams -----------------------------------------------------------------------------------------

    def join(self, slots: Array, records: Array, ratios: Sequence[Ratio], history: Array) -> None:
        """Streams begin in ``slots``: state cleared, formats and primed filter history [n, widest] in place.

        Ordered after the steps launched so far; other slots are not touched and no graph changes.
        """
        self._gpu.wait(self._staged)  # the last join's copies have left the staging memory
        with self._gpu.translated("starting a stream"):
            self._stage(slots, records, history)
        self.clock.start(slots, ratios, self.settings.lead)

    def _stage(self, slots: Array, records: Array, history: Array) -> None:
        cuda, stream = self._gpu.cuda, self._stream
        self._stage_streams[slots], self._stage_history[slots] = records, history
        self._stage_which[: len(slots)] = slots
        cuda.memcpy_htod_async(self._which.address, self._stage_which[: len(slots)], stream)
        for array, planes, width in self.stages.clearable:
            grid = (len(slots), planes)
            arguments = (self._which, np.int32(self.settings.slots), np.int32(width), array)
            self._gpu.launch("slots", "clear_slots", grid, 256, *arguments, stream=stream)
        for first, last in _runs(slots):
            at = (
                self.stages.streams.address + first * STREAM.itemsize,
                self.stages.history.address + 4 * first * self.filters.widest,
            )
            cuda.memcpy_htod_async(at[0], self._stage_streams[first:last], stream)
            cuda.memcpy_htod_async(at[1], self._stage_history[first:last], stream)
        self._staged.record(stream)

    def warm_up(self) -> None:
        """Run every graph once with silence, so that the first hop is as fast as the thousandth.

        Only before the first stream joins: it uses the slots.
        """
        ratio = next(iter(self.filters.ratios.values()))
        spec = AudioSpec(ratio.rate_hz, 1, SampleFormat.S16)
        record = stream_record(spec, ratio, (0,))
        for capacity in self.buckets:
            slots = np.arange(capacity)
            history = np.zeros((capacity, self.filters.widest), np.float32)
            self.join(slots, np.array([record] * capacity), [ratio] * capacity, history)
            for _ in range(BUFFERS):
                self.begin(slots)[:] = 0
                self.collect(self.launch())

    # --- a hop -------------------------------------------------------------------------------------------

    def register(self, address: int, nbytes: int) -> int:
        """Have the driver map memory of the host; its address on the device. GpuError when it does not."""
        return self._gpu.register(address, nbytes)

    def unregister(self, address: int) -> None:
        """Before the memory goes away."""
        self._gpu.unregister(address)

    def begin(self, slots: Array, addresses: Array | None = None) -> Array:
        """Prepare a hop of these streams. Returns uint8 [n, stride]: write each row's frames to its start.

        Row i takes ``clock.frames(slots)[i]`` frames. ``addresses`` int64 [n], of registered memory: rows
        whose address is not 0 are read there instead. Waits if both buffers are on the device.
        """
        buffer = self._buffers[self._turn]
        self._gpu.wait(buffer.done)
        n = len(slots)
        capacity = next(size for size in self.buckets if size >= n)
        heard = self.clock.hop[slots] + 1 - self.settings.vad_origin // FRAME.hop
        layout = self._layout(capacity)
        buffer.rows, buffer.layout = slots, layout
        buffer.vad_rows = np.flatnonzero((heard > 0) & (heard % FRAME.block_hops == 0))
        for index, (first, rows) in enumerate(layout.lanes):
            chunks = buffer.vad_rows[slice(*np.searchsorted(buffer.vad_rows, (first, first + rows)))]
            head = layout.header(buffer.host_in, index)
            part = slice(first, first + rows)
            where = None if addresses is None else addresses[part]
            write_header(head, self.clock.table, slots[part], chunks - first, where)
        buffer.lent = self.settings.lent and addresses is not None and bool(addresses.all())
        start = layout.headers_bytes
        return buffer.host_in[start : start + n * self.stride].reshape(n, self.stride)

    def launch(self) -> int:
        """Start the hop that ``begin`` prepared; returns a ticket for ``collect``."""
        buffer, ticket = self._buffers[self._turn], self._turn
        buffer.graphs[buffer.layout.capacity, buffer.lent].launch(self._stream)
        self._gpu.record(buffer.done, self._stream)
        self.clock.advance(buffer.rows)
        self._turn = (self._turn + 1) % BUFFERS
        return ticket

    def collect(self, ticket: int) -> HopResult:
        """Wait for a launched hop and give its results."""
        buffer = self._buffers[ticket]
        n = len(buffer.rows)
        parts = buffer.layout.out_parts(0, n)  # before waiting: nothing but the results is late
        asr, statistics, probability = (buffer.host_out[part] for part in parts)
        asr, statistics = asr.reshape(n, FRAME.hop), statistics.reshape(n, self.settings.channels, 4)
        self._gpu.wait(buffer.done)
        return HopResult(asr, buffer.vad_rows, probability[buffer.vad_rows], statistics)

    def kernel_times(self, repeats: int = 10) -> dict[str, float]:
        """Milliseconds of each kernel of the step that ``begin`` prepared, one by one; for measuring.

        The same hop is run again and again: the slots' states mean nothing afterwards.
        """
        buffer, totals = self._buffers[self._turn], dict[str, float]()
        for _ in range(repeats):
            with self._gpu.tracing() as trace:
                self.enqueue(buffer, buffer.layout.capacity)
            for name, milliseconds in trace():
                totals[name] = totals.get(name, 0.0) + milliseconds / repeats
        return totals

    def features(self, ticket: int) -> DeviceArray:
        """Log-mel frames of a hop, on the device: [rows, bins]; rows without a new frame hold an old one."""
        return self._buffers[ticket].features

    @contextmanager
    def lent_features(self, ticket: int, stream: int) -> Iterator[Buffer]:
        """The same as what an engine binds. What is enqueued inside on ``stream``, the engine's, reads them
        when they are there, and the hop that writes there next waits for it; nothing waits on the host."""
        features, own = self.features(ticket), int(self._stream.handle)
        self._gpu.order(own, stream)
        try:
            yield Buffer(features.address, features.nbytes, features)
        finally:
            self._gpu.order(stream, own)


def _free(arrays: list[DeviceArray]) -> None:
    for array in arrays:
        array.free()


def _runs(slots: Array) -> list[tuple[int, int]]:
    """Runs [first, last) of consecutive numbers."""
    ordered = np.sort(slots)
    ends = np.flatnonzero(np.diff(ordered) != 1) + 1
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(ordered, ends)]
