"""DTLN on the device: its weights, the buffers of a step, and the launches of one hop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.errors import GpuError
from cosyd.gpu import pack
from cosyd.gpu.device_array import DeviceArray
from cosyd.gpu.driver import Gpu
from cosyd.gpu.settings import Mode
from cosyd.gpu.weights import UNITS, DtlnWeights
from cosyd.spec import FRAME

Array = NDArray[Any]

BINS = FRAME.window // 2 + 1
SPECTRUM_STRIDE = 260  # SPEC_STRIDE of kernels/common.cuh
MAGNITUDE_STRIDE = 288  # MAG_STRIDE
FEATURES = FRAME.window // 2
ONE_STREAM = 1  # up to here one row a warp ...
FEW_STREAMS = 64  # ... up to here eight; more are tiles
MANY_STREAMS = 2048  # from here large tiles fill the chip

LSTM, SPECTRUM, PLAIN, MASKED, OVERLAP = range(5)  # enum Finish of kernels/dense.cuh

_POINTERS = ("header", "x", "w", "bias", "hidden", "cell", "other", "out", "window", "ring")
_INTS = ("capacity", "slots", "k1", "k2", "columns", "finish")
# Mirrors struct Layer of kernels/dense.cuh.
LAYER = np.dtype(
    [(n, np.uintp) for n in _POINTERS]
    + [(n, np.int32) for n in _INTS]
    + [("blend", np.float32), ("pad", np.int32)]
)


@dataclass(frozen=True)
class Matrix:
    """One product's weights on the device."""

    w: DeviceArray  # FP32 packing
    w16: DeviceArray | None  # 16-bit packing, in the tensor-core modes
    bias: DeviceArray | None
    k1: int
    k2: int
    columns: int


class DtlnState:
    """What DTLN keeps of every slot."""

    def __init__(self, gpu: Gpu, slots: int) -> None:
        self.slots = slots
        self.hidden = [gpu.array((2, slots, UNITS)) for _ in range(4)]
        self.cell = [gpu.array((slots, UNITS)) for _ in range(4)]
        self.window = gpu.array((slots, FRAME.window))

    def arrays(self) -> list[tuple[DeviceArray, int, int]]:
        """(array, planes, width) for clearing slots."""
        hidden = [(a, 2, UNITS) for a in self.hidden]
        return [*hidden, *((a, 1, UNITS) for a in self.cell), (self.window, 1, FRAME.window)]


class DtlnScratch:
    """Activations of one step of up to ``rows`` rows; steps run one after the other and share it."""

    def __init__(self, gpu: Gpu, rows: int) -> None:
        self.spectrum = gpu.array((rows, SPECTRUM_STRIDE, 2))
        self.magnitude = gpu.array((rows, MAGNITUDE_STRIDE))
        self.frame = gpu.array((rows, FRAME.window))
        self.features = gpu.array((rows, FEATURES))
        self.normal = gpu.array((rows, FEATURES))
        self.hidden = [gpu.array((rows, UNITS)) for _ in range(2)]


class DtlnKernels:
    """The network: weights in device memory, ``enqueue`` for one hop."""

    def __init__(self, gpu: Gpu, weights: DtlnWeights, mode: Mode, twiddle: DeviceArray) -> None:
        if mode == "bf16" and gpu.arch < 80:
            raise GpuError(f"{gpu.name} (sm_{gpu.arch}) has no BF16; use fp16")
        if gpu.constant("dtln", "cosyd_layer_bytes") != LAYER.itemsize:
            raise GpuError("kernels/dense.cuh and cosyd.gpu.dtln disagree about struct Layer")
        self._gpu = gpu
        self._mode = mode
        self._twiddle = twiddle
        self._lstm = [
            self._matrix(pack.lstm_matrix(w), pack.lstm_bias(w), pack.padded(len(w.inputs)), UNITS)
            for w in weights.lstm
        ]
        self._mask = self._matrix(*weights.mask)
        self._basis = self._matrix(weights.basis)
        self._refine = self._matrix(*weights.refine)
        self._inverse = self._matrix(weights.inverse)
        gain, shift, self._epsilon = weights.norm
        self._gain, self._shift = gpu.upload(gain), gpu.upload(shift)

    def _matrix(self, w: Array, bias: Array | None = None, k1: int = 0, k2: int = 0) -> Matrix:
        columns = w.shape[1]
        if bias is not None:
            bias = np.pad(bias.astype(np.float32), (0, -len(bias) % 4))
        return Matrix(
            self._gpu.upload(pack.columns(w, 4)),
            self._narrow(pack.columns(w, 8)),
            None if bias is None else self._gpu.upload(bias),
            k1 or len(w),
            k2,
            columns,
        )

    def _narrow(self, packed: Array) -> DeviceArray | None:
        if self._mode == "fp32":
            return None
        return self._gpu.upload(
            packed.astype(np.float16) if self._mode == "fp16" else pack.to_bfloat16(packed)
        )

    def enqueue(
        self,
        header: int,
        capacity: int,
        state: DtlnState,
        scratch: DtlnScratch,
        raw: DeviceArray,
        clean: DeviceArray,
        out: int,
        blend: float,
        stream: Any,
    ) -> None:
        """One hop of the rows in ``header``: raw[slots][RING] -> clean[slots][RING] and out[rows][HOP]."""
        rows = (np.uintp(header), np.int32(capacity))
        four = (-(-capacity // 4),)
        launch = self._gpu.launch
        step = _Step(self, header, capacity, state, stream)
        s = scratch
        analysis = (*rows, raw, self._twiddle, s.spectrum, s.magnitude)
        launch("dtln", "dtln_analysis", four, 256, *analysis, stream=stream)
        step.lstm(0, s.magnitude, s.hidden[0])
        step.lstm(1, s.hidden[0], s.hidden[1])
        step.dense(self._mask, SPECTRUM, s.hidden[1], out=s.spectrum.address)
        launch("dtln", "dtln_synthesis", four, 256, *rows, self._twiddle, s.spectrum, s.frame, stream=stream)
        step.dense(self._basis, PLAIN, s.frame, out=s.features.address)
        norm = (s.features, self._gain, self._shift, np.float32(self._epsilon), s.normal)
        launch("dtln", "dtln_normalise", (-(-capacity // 8),), 256, *rows, *norm, stream=stream)
        step.lstm(2, s.normal, s.hidden[0])
        step.lstm(3, s.hidden[0], s.hidden[1])
        step.dense(self._refine, MASKED, s.hidden[1], out=s.normal.address, other=s.features.address)
        last = {"other": raw.address, "window": state.window.address, "ring": clean.address, "blend": blend}
        step.dense(self._inverse, OVERLAP, s.normal, out=out, **last)

    def product(self, matrix: Matrix, layer: Any, capacity: int, stream: Any) -> None:
        """Launch one product with the kernel for this many rows."""
        name, grid, block, shared = self._shape(matrix, capacity)
        use = matrix.w if matrix.w16 is None or name.startswith("dense_gemv") else matrix.w16
        layer["w"] = use.address
        self._gpu.launch("dtln", name, grid, block, layer, stream=stream, shared=shared)

    def _shape(self, matrix: Matrix, capacity: int) -> tuple[str, tuple[int, int], int, int]:
        """Kernel, grid, block, dynamic shared memory. Few rows take FP32 in every mode."""
        if capacity <= FEW_STREAMS:
            rows = 1 if capacity <= ONE_STREAM else 8
            grid = (-(-matrix.columns // 16), -(-capacity // rows))
            return f"dense_gemv_{rows}", grid, 128, 4 * rows * (matrix.k1 + matrix.k2)
        large = capacity >= MANY_STREAMS
        kind = "f32" if self._mode == "fp32" else self._mode.replace("fp16", "f16")
        tall, wide = (128, 128) if large else (32 if kind == "f32" else 64, 64)
        grid = (-(-capacity // tall), -(-matrix.columns // wide))
        return f"dense_{kind}_{'large' if large else 'small'}", grid, 256 if large else 128, 0


class _Step:
    """Fills in what all layers of one step have in common."""

    def __init__(
        self, kernels: DtlnKernels, header: int, capacity: int, state: DtlnState, stream: Any
    ) -> None:
        self._kernels, self._header, self._capacity = kernels, header, capacity
        self._state, self._stream = state, stream

    def lstm(self, index: int, x: DeviceArray, out: DeviceArray) -> None:
        state = self._state
        cells = {"hidden": state.hidden[index].address, "cell": state.cell[index].address}
        self.dense(self._kernels._lstm[index], LSTM, x, out=out.address, **cells)

    def dense(self, matrix: Matrix, finish: int, x: DeviceArray, **values: float) -> None:
        layer = np.zeros(1, LAYER)
        layer["header"], layer["capacity"], layer["slots"] = self._header, self._capacity, self._state.slots
        layer["x"], layer["finish"], layer["columns"] = x.address, finish, matrix.columns
        layer["k1"], layer["k2"] = matrix.k1, matrix.k2
        layer["bias"] = matrix.bias.address if matrix.bias else 0
        for name, value in values.items():
            layer[name] = value
        self._kernels.product(matrix, layer[0], self._capacity, self._stream)
