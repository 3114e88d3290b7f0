"""Memory that a network works on: plain addresses, the same on the host and on a GPU.

An engine on the CPU works on host memory, one on a GPU on device memory; who binds buffers asks the engine's
``memory`` for them and need not know which it is.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

if TYPE_CHECKING:
    from cosyd.engine.rows import Lane, RowTable

Array = NDArray[Any]


@dataclass(frozen=True)
class Buffer:
    """``nbytes`` of memory at ``address``. ``owner`` keeps it alive as long as the buffer is referred to."""

    address: int
    nbytes: int
    owner: object = field(default=None, repr=False, compare=False)


class Memory(Protocol):
    """Where buffers come from. ``stream`` is a CUstream as an integer; memory of the host ignores it."""

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda``."""
        ...

    @property
    def stream(self) -> int:
        """One for whoever has none of its own; 0 on the host."""
        ...

    @property
    def usable(self) -> bool:
        """False once a fault has made all of it unusable in this process."""
        ...

    def allocate(self, nbytes: int) -> Buffer:
        """Zeroed memory, given back when the buffer is no longer referred to. Raises GpuError when full."""
        ...

    def write(self, buffer: Buffer, values: Array, stream: int = 0) -> None:
        """Copy from the host to the beginning of the buffer."""
        ...

    def read(self, buffer: Buffer, shape: tuple[int, ...], dtype: DTypeLike, stream: int = 0) -> Array:
        """Copy to the host, after all that was enqueued on the stream before."""
        ...

    def copy(self, target: Buffer, source: Buffer, nbytes: int, stream: int = 0) -> None:
        """Within this memory."""
        ...

    def synchronize(self, stream: int = 0) -> None:
        """Wait for all that was enqueued."""
        ...

    def row_table(self, lanes: Sequence[Lane], n: int) -> RowTable:
        """What moves the rows of these tensors between their stores and a batch of n, all in this memory."""
        ...


ALIGNMENT = 256  # what CUDA's allocators give, and enough for any vector unit of a CPU


class HostMemory:
    """The machine's own memory."""

    device = "cpu"
    stream = 0
    usable = True

    def allocate(self, nbytes: int) -> Buffer:
        block = np.zeros(nbytes + ALIGNMENT, np.uint8)
        skip = -block.ctypes.data % ALIGNMENT
        return Buffer(block.ctypes.data + skip, nbytes, block)

    def write(self, buffer: Buffer, values: Array, stream: int = 0) -> None:
        data = np.ascontiguousarray(values)
        _check_room(buffer, data.nbytes)
        ctypes.memmove(buffer.address, data.ctypes.data, data.nbytes)

    def read(self, buffer: Buffer, shape: tuple[int, ...], dtype: DTypeLike, stream: int = 0) -> Array:
        values = np.empty(shape, dtype)
        _check_room(buffer, values.nbytes)
        ctypes.memmove(values.ctypes.data, buffer.address, values.nbytes)
        return values

    def copy(self, target: Buffer, source: Buffer, nbytes: int, stream: int = 0) -> None:
        for buffer in (target, source):
            _check_room(buffer, nbytes)
        ctypes.memmove(target.address, source.address, nbytes)

    def synchronize(self, stream: int = 0) -> None:
        """Everything here is done when the call returns."""

    def row_table(self, lanes: Sequence[Lane], n: int) -> RowTable:
        from cosyd.engine.rows import HostRowTable

        return HostRowTable(lanes, n)


def _check_room(buffer: Buffer, nbytes: int) -> None:
    if nbytes > buffer.nbytes:
        raise ValueError(f"{nbytes} bytes of a buffer of {buffer.nbytes}")


def view_of(buffer: Buffer, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """A host buffer as an array, without a copy; alive as long as the buffer's owner."""
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    _check_room(buffer, size)
    raw = (ctypes.c_uint8 * size).from_address(buffer.address)
    raw._owner = buffer.owner  # type: ignore[attr-defined]
    view: Array = np.ctypeslib.as_array(raw).view(kind).reshape(shape)
    return view
