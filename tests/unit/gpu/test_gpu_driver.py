"""The driver's edge with stand-ins for PyCUDA and cuda.bindings: what is asked, and what errors become."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from cosyd.errors import GpuError
from cosyd.gpu import driver
from cosyd.gpu.driver import Gpu
from cosyd.gpu.driver_memory import DriverMemory
from cosyd.gpu.pipeline import Pipeline


class CudaError(Exception):
    pass


class Event:
    """Reached at the ``after``-th look; -1: never; an error instead where one is given."""

    def __init__(self, after: int = 1, error: Exception | None = None) -> None:
        self.after, self.error, self.looks = after, error, 0

    def query(self) -> bool:
        self.looks += 1
        if self.error:
            raise self.error
        return 0 <= self.after <= self.looks


def opened(synchronize=lambda: None) -> Gpu:
    gpu = Gpu(Path("unused"))
    gpu.cuda = SimpleNamespace(Error=CudaError, Context=SimpleNamespace(synchronize=synchronize))
    gpu.name = "a GPU"
    gpu._context = object()
    return gpu


def test_waiting_looks_until_the_event_is_reached() -> None:
    event = Event(after=700)
    opened().wait(event)
    assert event.looks == 700


def test_an_error_while_waiting_names_the_device() -> None:
    with pytest.raises(GpuError, match=r"^a GPU: a step failed: an illegal memory access"):
        opened().wait(Event(error=CudaError("an illegal memory access was encountered")))


def test_a_silent_device_is_given_up_and_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "ANSWER_S", 0.05)

    def for_ever() -> None:
        raise AssertionError("a silent device was waited for")

    gpu = opened(for_ever)
    begun = time.monotonic()
    with pytest.raises(GpuError, match="does not answer"):
        gpu.wait(Event(after=-1))
    assert time.monotonic() - begun >= 0.05
    assert gpu.settle(object()) is False


def test_a_dead_device_is_settled_without_an_error() -> None:
    def dead() -> None:
        raise CudaError("an illegal memory access was encountered")

    assert opened(dead).settle(object()) is False
    assert opened().settle(object()) is True


class FakeDriver:
    """cuda.bindings.driver: every call gives a status first."""

    def __init__(self, pools: bool = True, full: bool = False) -> None:
        self.pools, self.full, self.calls = pools, full, []
        self.CUdevice_attribute = int
        self.CUmemPool_attribute = SimpleNamespace(
            CU_MEMPOOL_ATTR_USED_MEM_CURRENT=1,
            CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT=2,
            CU_MEMPOOL_ATTR_USED_MEM_HIGH=3,
        )

    def cuDeviceGet(self, device):
        return 0, device

    def cuDeviceGetAttribute(self, attribute, device):
        assert attribute == 115
        return 0, int(self.pools)

    def cuDeviceGetDefaultMemPool(self, device):
        return 0, "pool"

    def cuMemAllocAsync(self, nbytes, stream):
        self.calls.append(("async", nbytes, stream))
        return (2, None) if self.full else (0, 4096)

    def cuMemAlloc(self, nbytes):
        self.calls.append(("plain", nbytes))
        return (2, None) if self.full else (0, 4096)

    def cuMemFreeAsync(self, address, stream):
        self.calls.append(("free async", address, stream))
        return (0,)

    def cuMemFree(self, address):
        self.calls.append(("free", address))
        return (0,)

    def cuMemPoolGetAttribute(self, pool, attribute):
        return 0, 100 * attribute

    def cuMemGetInfo(self):
        return (999, 0, 0) if self.full else (0, 30, 100)


def test_memory_is_ordered_on_the_default_stream() -> None:
    fake = FakeDriver()
    memory = DriverMemory(fake, 0)
    assert memory.ordered
    assert memory.allocate(64) == (0, 4096)
    assert memory.free(4096) == 0
    assert fake.calls == [("async", 64, 0), ("free async", 4096, 0)]
    assert memory.pool() == (100, 200, 300)
    assert memory.device() == (70, 100)


def test_a_device_without_pools_has_the_plain_allocator() -> None:
    fake = FakeDriver(pools=False)
    memory = DriverMemory(fake, 0)
    assert not memory.ordered
    assert memory.allocate(64) == (0, 4096)
    memory.free(4096)
    assert fake.calls == [("plain", 64), ("free", 4096)]
    assert memory.pool() == (0, 0, 0)


def test_a_full_device_is_a_status_and_a_silent_one_an_error() -> None:
    memory = DriverMemory(FakeDriver(full=True), 0)
    assert memory.allocate(64) == (2, 0)
    with pytest.raises(GpuError, match="asking the driver for its memory failed: 999"):
        memory.device()


class Refused:
    name = "CUDA_ERROR_NOT_SUPPORTED"

    def __int__(self) -> int:
        return 801


def test_pages_are_asked_for_read_only_first_and_a_refusal_is_named() -> None:
    gpu, flags = opened(), []

    def register(address: int, nbytes: int, flag: int) -> tuple[object]:
        flags.append(flag)
        return (Refused(),)

    gpu.graphs = SimpleNamespace(cuMemHostRegister=register)
    with pytest.raises(GpuError, match="does not map the ring's pages: CUDA_ERROR_NOT_SUPPORTED"):
        gpu.register(4096, 8192)
    assert flags == [10, 2]


class Ordering:
    """Events and streams of cuda.bindings; ``fail``: the call that does."""

    def __init__(self, fail: str = "") -> None:
        self.fail, self.calls = fail, []

    def __getattr__(self, name: str):
        def call(*arguments: object) -> tuple[object, ...]:
            self.calls.append((name, *arguments))
            status = 700 if name == self.fail else 0
            return (status, "event") if name == "cuEventCreate" else (status,)

        return call


def test_one_stream_is_ordered_after_another_without_waiting() -> None:
    gpu = opened()
    gpu.graphs = ordering = Ordering()
    gpu.order(11, 22)
    assert ordering.calls == [
        ("cuEventCreate", 2),
        ("cuEventRecord", "event", 11),
        ("cuStreamWaitEvent", 22, "event", 0),
        ("cuEventDestroy", "event"),
    ]


def test_an_order_that_fails_is_told_and_leaves_no_event() -> None:
    gpu = opened()
    gpu.graphs = ordering = Ordering("cuStreamWaitEvent")
    with pytest.raises(GpuError, match="ordering two streams failed: 700"):
        gpu.order(11, 22)
    assert ordering.calls[-1] == ("cuEventDestroy", "event")


def test_features_are_lent_to_an_engine_s_stream_and_taken_back() -> None:
    """The engine reads after the hop that made them; the next hop that writes there comes after it."""
    pipeline = Pipeline.__new__(Pipeline)
    orders: list[tuple[int, int]] = []
    features = SimpleNamespace(address=4096, nbytes=640)
    pipeline._gpu = SimpleNamespace(order=lambda first, then: orders.append((first, then)))
    pipeline._stream = SimpleNamespace(handle=11)
    pipeline._buffers = [SimpleNamespace(features=features)] * 2
    with pipeline.lent_features(1, 22) as buffer:
        assert (buffer.address, buffer.nbytes, buffer.owner) == (4096, 640, features)
        assert orders == [(11, 22)]
    assert orders == [(11, 22), (22, 11)]
