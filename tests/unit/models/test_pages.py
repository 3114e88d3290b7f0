"""Huge pages: asked for where memory is in use, and only there; contents stay."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from cosyd.models import pages
from cosyd.models.pages import Area, in_huge_pages, read_areas

MIB = 1 << 20
SIZE = 16 * MIB

SMAPS = """\
7f0000000000-7f0001000000 rw-p 00000000 00:00 0 
Size:              16384 kB
Rss:               12288 kB
AnonHugePages:      2048 kB
VmFlags: rd wr mr mw me ac sd
7f0001000000-7f0001800000 rw-s 00000000 00:1a 42                         /dev/shm/ring
Rss:                8192 kB
7f0002000000-7f0002800000 r--p 00000000 fe:00 7                          /usr/lib/libx.so
Rss:                8192 kB
55d000000000-55d000400000 rw-p 00000000 00:00 0                          [heap]
Rss:                 100 kB
7ffd00000000-7ffd00800000 rw-p 00000000 00:00 0                          [stack]
Rss:                8192 kB
"""  # noqa: W291 - as the kernel writes it


def test_only_private_memory_without_a_file_counts() -> None:
    whole, heap = read_areas(SMAPS.splitlines())
    assert whole == Area(0x7F0000000000, 0x7F0001000000, 12 * MIB, 2 * MIB)
    assert (heap.start, heap.resident) == (0x55D000000000, 100 << 10)
    assert whole.worthwhile
    assert not heap.worthwhile  # hardly any of it is in use


def _areas() -> list[Area]:
    return list(read_areas(Path("/proc/self/smaps").read_text().splitlines()))


def _at(address: int) -> Area:
    return next(each for each in _areas() if each.start <= address < each.end)


@contextmanager
def mapped(content: bytes) -> Iterator[tuple[mmap.mmap, int]]:
    """Memory that begins with this content, and its address."""
    with mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as found:
        found[: len(content)] = content
        yield found, ctypes.addressof(ctypes.c_char.from_buffer(found))


@pytest.fixture
def random() -> bytes:
    return np.random.default_rng(0).bytes(SIZE)


def test_new_memory_moves_and_keeps_its_contents(random: bytes) -> None:
    if not pages._page_size():
        pytest.skip("this kernel has no transparent huge pages, or they are switched off")
    with ExitStack() as stack:
        with in_huge_pages():
            found, address = stack.enter_context(mapped(random))
            assert _at(address).resident >= SIZE
        if not _at(address).huge:
            pytest.skip("this kernel has no way to do it at once (before 6.1), or no such page is free")
        assert _at(address).huge >= SIZE // 2
        assert found[:] == random


def test_what_was_there_before_is_left_alone(random: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    advised: list[tuple[int, int]] = []
    monkeypatch.setattr(pages, "_page_size", lambda: 2 * MIB)
    monkeypatch.setattr(pages, "_collapse", lambda start, length: advised.append((start, length)) or True)
    with mapped(random) as (_, old), ExitStack() as stack:
        with in_huge_pages():
            _, new = stack.enter_context(mapped(random))
        covered = [range(start, start + length) for start, length in advised]
        assert any(new + 4 * MIB in each for each in covered)
        assert not any(old + 4 * MIB in each for each in covered)


def test_an_error_inside_is_not_hidden() -> None:
    with pytest.raises(ValueError, match="damaged"), in_huge_pages():
        raise ValueError("damaged")


@pytest.mark.parametrize("enabled", ["always madvise [never]\n", None])
def test_nothing_is_done_where_nobody_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enabled: str | None
) -> None:
    if enabled is not None:
        (tmp_path / "enabled").write_text(enabled)
        (tmp_path / "hpage_pmd_size").write_text("2097152\n")
    monkeypatch.setattr(pages, "_SETTINGS", tmp_path)
    looked: list[object] = []
    monkeypatch.setattr(pages, "read_areas", lambda lines: looked.append(lines) or iter(()))
    with in_huge_pages():
        pass
    assert not looked
