"""Memory that runs out: the reserve serves, then the error says so; nothing of it needs a GPU."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosyd.errors import GpuError
from cosyd.gpu.memory import ALIGN, Arena, DeviceMemory, Watermark


class FakeMemory:
    """A device of ``total`` bytes."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.pieces: dict[int, int] = {}
        self.fault = 0
        self.most = 0

    def allocate(self, nbytes: int) -> tuple[int, int]:
        used = sum(self.pieces.values())
        if self.fault or used + nbytes > self.total:
            return self.fault or 2, 0
        address = 4096 * (1 + len(self.pieces)) + 2**20 * nbytes
        self.pieces[address] = nbytes
        self.most = max(self.most, used + nbytes)
        return 0, address

    def free(self, address: int) -> int:
        return 0 if self.pieces.pop(address, 0) else 1

    def pool(self) -> tuple[int, int, int]:
        return sum(self.pieces.values()), self.total, self.most

    def device(self) -> tuple[int, int]:
        return sum(self.pieces.values()), self.total


def test_the_reserve_serves_when_the_device_is_full_and_is_told() -> None:
    raw = FakeMemory(10_000)
    memory = DeviceMemory(raw, "fake")
    assert memory.reserve(2_000)
    first = memory.allocate(7_900)
    second = memory.allocate(1_000)
    assert (first.reserved, second.reserved) == (False, True)
    assert memory.fallbacks == memory.usage().fallbacks == 1
    assert memory.usage().spare_used == 1_024
    with pytest.raises(GpuError, match=r"no 2,000 bytes of memory left \(52 of 10,000 free"):
        memory.allocate(2_000)
    memory.free(second)
    assert memory.allocate(2_000).reserved
    usage = memory.usage()
    assert (usage.used, usage.peak, usage.device_total) == (9_900, 9_948, 10_000)


def test_another_error_is_no_lack_of_memory() -> None:
    raw = FakeMemory(10_000)
    memory = DeviceMemory(raw, "fake")
    memory.reserve(5_000)
    raw.fault = 700
    with pytest.raises(GpuError, match="CUDA error 700"):
        memory.allocate(10)
    assert memory.fallbacks == 0


def test_a_reserve_that_cannot_be_had_is_told_and_costs_nothing() -> None:
    raw = FakeMemory(1_000)
    memory = DeviceMemory(raw, "fake")
    assert not memory.reserve(4_000)
    assert raw.pieces == {}
    memory.close()


def test_closing_gives_the_reserve_back() -> None:
    raw = FakeMemory(10_000)
    memory = DeviceMemory(raw, "fake")
    memory.reserve(5_000)
    memory.free(memory.allocate(10))
    memory.close()
    memory.close()
    assert raw.pieces == {}


@given(st.lists(st.one_of(st.integers(1, 3_000), st.integers(-8, -1)), max_size=60))
def test_pieces_never_overlap_and_all_comes_back(steps: list[int]) -> None:
    """Positive: take so much; negative: give back the oldest but so many."""
    arena, held = Arena(ALIGN, 40 * ALIGN), []
    for step in steps:
        if step > 0:
            address = arena.take(step)
            if address is not None:
                assert address % ALIGN == 0
                held.append((address, step))
        elif held:
            arena.give(held.pop(-step % len(held))[0])
        spans = sorted(held)
        assert all(a + n <= b for (a, n), (b, _) in itertools.pairwise(spans))
        assert all(a >= ALIGN and a + n <= 41 * ALIGN for a, n in spans)
    for address, _ in held:
        arena.give(address)
    assert arena.used == 0
    assert arena.take(40 * ALIGN) == ALIGN, "free neighbours became one piece again"


def test_an_unknown_address_is_refused() -> None:
    with pytest.raises(KeyError):
        Arena(0, 1024).give(512)


def test_the_watermark_waits_its_minute_and_forgets_at_once() -> None:
    mark = Watermark(0.85, 60)
    assert not mark.accept(0.9, 0)
    assert not mark.accept(0.99, 59.9)
    assert not mark.reached
    assert mark.accept(0.85, 60)
    assert mark.reached
    assert not mark.accept(0.9, 61)
    assert mark.accept(0.84, 62)
    assert not mark.reached
    assert not mark.accept(0.9, 63)
    assert not mark.accept(0.9, 122)
    assert mark.accept(0.9, 123)
