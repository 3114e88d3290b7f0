"""Frames read where they lie in a ring, through a real ring, over the reference pipeline."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from front_end_fakes import drain, rows
from gpu_fakes import cpu_front, gpu_front

from cosyd.config.schema import FrontendConfig
from cosyd.errors import GpuError
from cosyd.gpu.banks import Banks
from cosyd.gpu.front_end import COPIED, IN_PLACE, GpuFrontEnd
from cosyd.gpu.routing import RoutedFrontEnd
from cosyd.ring import RingReader, RingWriter
from cosyd.spec import AudioSpec, SampleFormat
from cosyd.types import GpuUsage

FORMATS = {SampleFormat.S16: np.int16, SampleFormat.S32: np.int32, SampleFormat.F32: np.float32}


class Deaf:
    def health(self, health: object) -> None:
        pass

    def usage(self, usage: object) -> None:
        pass


def configured(**options: object) -> FrontendConfig:
    return FrontendConfig.model_validate({"max_streams": 2, "denoise_rests": False, **options})


def signal(spec: AudioSpec, seconds: float) -> np.ndarray:
    x = np.random.default_rng(7).standard_normal((spec.frames(seconds), spec.channels)) * 0.1
    kind = FORMATS[spec.format]
    return x.astype(kind) if kind is np.float32 else (x * np.iinfo(kind).max).astype(kind)


def through_ring(front, path: Path, spec: AudioSpec, x: np.ndarray, buffer_s: float = 9.0, start: int = 0):
    """Write in pieces, read, push, step; then flush. All batches of slot 0, and the slot."""
    out = []
    writing = RingWriter.open(path, spec, buffer_s, start_index=start)
    with writing as writer, RingReader.attach(path, position=start) as reader:
        slot = front.open(spec)
        front.lend(slot, reader.capacity)
        for at in range(0, len(x), 1111):
            writer.write(np.ascontiguousarray(x[at : at + 1111]))
            while (block := reader.read(700)) is not None:
                assert front.push(slot, block.frames, block.index) == len(block.frames)
                out += drain(front)
        front.flush(slot)
        out += drain(front)
        described = front.backends_of(slot)["vad"].reason
        front.close(slot)
    return out, described


@pytest.mark.parametrize("rate", [16_000, 44_100, 48_000])
@pytest.mark.parametrize("form", list(FORMATS))
@pytest.mark.parametrize("options", [{}, {"denoise": "off"}], ids=["denoised", "raw"])
def test_read_in_place_is_the_same_as_copied(
    tmp_path: Path, rate: int, form: SampleFormat, options: dict[str, object]
) -> None:
    spec = AudioSpec(rate, 2, form)
    x = signal(spec, 0.4)
    lent, copied = gpu_front(configured(**options)), gpu_front(configured(**options))
    start = 9 * rate - 3000  # near the end: frames lie across the ring's edge
    out, described = through_ring(lent, tmp_path / "ring", spec, x, start=start)
    assert described.endswith(IN_PLACE)
    assert lent._pipeline.registered == {}, "given back"
    slot = copied.open(spec)
    copied.push(slot, x, start)
    copied.flush(slot)
    for got, expected in zip(rows(out, 0), rows(drain(copied), slot), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_frames_are_really_not_copied(tmp_path: Path) -> None:
    spec = AudioSpec(16_000, 1, SampleFormat.S16)
    front = gpu_front(configured())
    through_ring(front, tmp_path / "ring", spec, signal(spec, 0.5))
    held = front._hops.any(axis=1).sum()
    assert 1 <= held <= 12, "of 67: the beginning, which is filled up before it, and the end"


def test_a_driver_that_does_not_map_is_told_and_frames_are_copied(tmp_path: Path) -> None:
    spec = AudioSpec(16_000, 1, SampleFormat.S16)
    front, other = gpu_front(configured()), gpu_front(configured())

    def refuse(address: int, nbytes: int) -> int:
        raise GpuError("fake: the driver does not map the ring's pages")

    front._pipeline.register = refuse
    x = signal(spec, 0.3)
    out, described = through_ring(front, tmp_path / "ring", spec, x)
    assert described.endswith(f"{COPIED}: fake: the driver does not map the ring's pages")
    slot = other.open(spec)
    other.push(slot, x, 0)
    other.flush(slot)
    np.testing.assert_array_equal(rows(out, 0)[1], rows(drain(other), slot)[1])


def test_a_short_ring_is_copied(tmp_path: Path) -> None:
    spec = AudioSpec(16_000, 1, SampleFormat.S16)
    _, described = through_ring(
        gpu_front(configured()), tmp_path / "ring", spec, signal(spec, 0.1), buffer_s=3
    )
    assert described.endswith("the ring is shorter than 8 s")


@pytest.mark.parametrize("fail_at", [0, 5, 23])
def test_a_dead_gpu_leaves_what_lies_in_the_ring_to_the_cpu(tmp_path: Path, fail_at: int) -> None:
    config = configured()
    spec = AudioSpec(44_100, 1, SampleFormat.S16)
    x = signal(spec, 0.6)
    bank = gpu_front(config, fail_at=fail_at)
    banks = Banks(lambda: bank, 1, lambda: GpuUsage(0, 0, 0, 0, 0, 0, 1, 0))
    banks.grow()
    front = RoutedFrontEnd(cpu_front(config), 2, Deaf(), banks)
    out, described = through_ring(front, tmp_path / "ring", spec, x, start=5)
    assert described.startswith("the GPU failed")
    assert bank._pipeline.registered == {}
    reference = cpu_front(config)
    slot = reference.open(spec)
    reference.push(slot, x, 5)
    reference.flush(slot)
    got, expected = rows(out, 0), rows(drain(reference), slot)
    np.testing.assert_array_equal(got[0], expected[0])
    np.testing.assert_allclose(got[1], expected[1], atol=1e-6)


def test_frames_from_elsewhere_are_refused_once_a_ring_was_lent(tmp_path: Path) -> None:
    spec = AudioSpec(16_000, 1, SampleFormat.S16)
    front: GpuFrontEnd = gpu_front(configured())
    with (
        RingWriter.open(tmp_path / "ring", spec, 9.0) as writer,
        RingReader.attach(tmp_path / "ring", position=0) as reader,
    ):
        slot = front.open(spec)
        front.lend(slot, reader.capacity)
        writer.write(np.zeros((500, 1), np.int16))
        block = reader.read(500)
        assert block is not None
        front.push(slot, block.frames, block.index)
        with pytest.raises(ValueError, match="do not lie in the ring"):
            front.push(slot, np.zeros((10, 1), np.int16), 500)
        front.close(slot)
        del block
