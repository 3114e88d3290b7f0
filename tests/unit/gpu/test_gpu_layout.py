"""The buffers of a step: nothing overlaps, everything is aligned, headers say what the kernels read."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from cosyd.gpu.layout import CHUNK, COLUMNS, HEADER, Layout, buckets, lanes, write_header
from cosyd.gpu.settings import Settings
from cosyd.gpu.streams import Clock, FilterBank


@pytest.mark.parametrize("slots", [1, 5, 8, 64, 100, 1024, 3000, 20_480, 100_000])
def test_buckets_rise_to_the_number_of_slots_and_at_most_double(slots: int) -> None:
    sizes = buckets(slots)
    assert sizes[-1] == slots
    assert list(sizes) == sorted(set(sizes))
    assert all(b <= 2 * a for a, b in pairwise(sizes) if a >= 2048)


@pytest.mark.parametrize("capacity", [1, 7, 2049, CHUNK, CHUNK + 1, 100_000])
def test_parts_neither_overlap_nor_leave_gaps(capacity: int) -> None:
    layout = Layout(capacity, 784, 3)
    taken = np.zeros(layout.out_floats, np.uint8)
    copied = np.zeros(layout.in_bytes, np.uint8)
    for index, (first, rows) in enumerate(lanes(capacity)):
        for part in layout.out_parts(first, rows):
            taken[part] += 1
        for part in layout.in_parts(index):
            copied[part] += 1
        assert layout.out_parts(first, rows)[1].start % 4 == 0, "statistics are read as float4"
        assert layout.pcm_part(first, rows).start % 16 == 0
        copies = layout.out_copies(first, rows)
        assert sum(p.stop - p.start for p in copies) == sum(
            p.stop - p.start for p in layout.out_parts(first, rows)
        )
    assert (taken == 1).all()
    assert (copied == 1).all()


def test_a_header_lists_slots_hops_frames_and_phases() -> None:
    layout, clock = Layout(5, 16, 1), Clock(9)
    ratio = FilterBank((44_100,)).ratio(44_100)
    slots = np.array([7, 2, 4])
    clock.start(slots, [ratio] * 3, 128)
    clock.advance(slots[:2])
    buffer = np.zeros(layout.in_bytes, np.uint8)
    head = layout.header(buffer, 0)
    write_header(head, clock.table, slots, np.array([1]))
    columns = head[HEADER:].reshape(COLUMNS, 5)
    assert head[:3].tolist() == [3, 1, 0]
    assert columns[0].tolist() == [7, 2, 4, 0, 0]
    assert columns[1].tolist() == [1, 1, 0, 0, 0]
    before = np.array([-1, -1, -129]) * 441
    np.testing.assert_array_equal(columns[3, :3], before % 160)
    np.testing.assert_array_equal(columns[2, :3], (before + 128 * 441) // 160 - before // 160)
    assert columns[4, 0] == 1


def test_settings_derive_lead_and_origins() -> None:
    denoised, raw = Settings(1, vad_denoised=True), Settings(1, denoise=False)
    assert (denoised.lead, denoised.trail, denoised.vad_origin, denoised.heard_origin) == (128, 384, 512, 512)
    assert (raw.lead, raw.trail, raw.vad_origin, raw.heard_origin, raw.share) == (0, 0, 0, 0, 0.0)
    assert Settings(1, blend=0.0).heard_origin == 128
