"""Frames read in a real ring's pages by a real device, against the same frames copied."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gpu_feed import Source

pytest.importorskip("pydantic", reason="the configuration needs pydantic")

from cosyd.config.schema import FrontendConfig
from cosyd.gpu.driver import Gpu
from cosyd.gpu.front_end import COPIED, IN_PLACE, GpuFrontEnd
from cosyd.gpu.pipeline import Pipeline
from cosyd.gpu.settings import settings_for
from cosyd.gpu.streams import RATES_HZ
from cosyd.gpu.weights import DtlnWeights, VadWeights
from cosyd.ring import RingReader, RingWriter
from cosyd.spec import SampleFormat
from cosyd.types import Backend

KINDS = [
    (48_000, SampleFormat.S16, 2),
    (16_000, SampleFormat.S32, 1),
    (44_100, SampleFormat.F32, 6),
    (96_000, SampleFormat.S24, 2),
    (8_000, SampleFormat.S24, 1),
]


def play(front: GpuFrontEnd, path: Path, source: Source, lend: bool) -> tuple[list[np.ndarray], str]:
    """Everything of the source through a ring, its beginning near the ring's edge."""
    out = []
    start = 9 * source.spec.rate_hz - 3001

    def drain() -> None:
        while (batch := front.step()) is not None:
            out.append(np.concatenate((batch.asr[0], batch.vad_prob, batch.samples.astype(np.float32))))

    writing = RingWriter.open(path, source.spec, 9.0, start_index=start)
    with writing as writer, RingReader.attach(path, position=start) as reader:
        slot = front.open(source.spec)
        if lend:
            front.lend(slot, reader.capacity)
        for at in range(0, len(source.frames), 1777):
            writer.write(np.ascontiguousarray(source.frames[at : at + 1777]))
            while (block := reader.read(900)) is not None:
                front.push(slot, block.frames, block.index)
                drain()
        front.flush(slot)
        drain()
        way = front.backends_of(slot)["vad"].reason
        front.close(slot)
    return out, way


@pytest.mark.parametrize(("rate", "form", "channels"), KINDS)
def test_read_in_place_is_bit_for_bit_what_is_copied(
    gpu: Gpu,
    vad_weights: VadWeights,
    dtln_weights: DtlnWeights,
    tmp_path: Path,
    rate: int,
    form: SampleFormat,
    channels: int,
) -> None:
    settings = settings_for(FrontendConfig(max_streams=3), channels=8)
    settings = replace(settings, rates_hz=RATES_HZ, mel=None, lent=True)
    source = Source.make(5, rate, form, channels, seconds=0.7)
    with Pipeline(gpu, settings, vad_weights, dtln_weights) as pipeline:
        pipeline.warm_up()
        with GpuFrontEnd(pipeline, Backend("cuda", "own kernels")) as front:
            copied, way = play(front, tmp_path / "copied", source, lend=False)
            assert way.endswith(COPIED)
            lent, way = play(front, tmp_path / "lent", source, lend=True)
            if not way.endswith(IN_PLACE):
                pytest.skip(f"this driver does not map them: {way}")
            np.testing.assert_array_equal(np.array(lent), np.array(copied))
