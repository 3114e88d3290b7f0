"""Streams for the parity tests: synthetic device frames, fed hop by hop, and the float64 answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.frontend.filters import DC_CORNER_HZ
from cosyd.frontend.pcm import Mixer
from cosyd.gpu.intake import HopCutter
from cosyd.gpu.mel import MelDesign
from cosyd.gpu.pipeline import Pipeline
from cosyd.gpu.reference import networks, signals
from cosyd.gpu.weights import DtlnWeights, VadWeights
from cosyd.spec import FRAME, AudioSpec, SampleFormat

Array = NDArray[Any]
POLE = float(np.exp(-2 * np.pi * DC_CORNER_HZ / FRAME.rate_hz))


def voice(frames: int, rate: int, seed: int) -> Array:
    """Something like speech: harmonics of a gliding pitch in syllables, over noise and an offset."""
    rng = np.random.default_rng(seed)
    t = np.arange(frames) / rate
    pitch = rng.uniform(90, 220) * (1 + 0.2 * np.sin(2 * np.pi * rng.uniform(0.5, 2) * t))
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    tone = sum(np.sin(k * phase + rng.uniform(0, 6)) / k for k in range(1, 25))
    syllables = np.clip(np.sin(2 * np.pi * rng.uniform(2, 5) * t + rng.uniform(0, 6)), 0, 1)
    return 0.15 * syllables * tone + 0.01 * rng.standard_normal(frames) + rng.uniform(-0.05, 0.05)


def as_format(x: Array, form: SampleFormat) -> Array:
    """[n, channels] in ±1 in a device's format."""
    if form is SampleFormat.F32:
        return x.astype(np.float32)
    if form is SampleFormat.S16:
        return np.round(x * 32767).astype(np.int16)
    wide = np.round(x * (2**31 - 1)).astype(np.int32)
    if form is SampleFormat.S32:
        return wide
    return np.ascontiguousarray(wide[..., None].view(np.uint8)[..., 1:])


@dataclass
class Source:
    """One stream of a test."""

    spec: AudioSpec
    frames: Array
    channel_map: tuple[int, ...] | None = None
    cutter: HopCutter | None = None
    asr: list[Array] = field(default_factory=list)
    vad: list[float] = field(default_factory=list)
    features: list[Array] = field(default_factory=list)
    statistics: list[Array] = field(default_factory=list)
    pieces: list[Array] = field(default_factory=list)
    hops: int = 0

    @classmethod
    def make(
        cls, seed: int, rate: int = 16_000, form: SampleFormat = SampleFormat.F32, channels: int = 1,
        seconds: float = 0.5, channel_map: tuple[int, ...] | None = None,
    ) -> Source:  # fmt: skip
        count = int(seconds * rate)
        x = np.stack([voice(count, rate, 100 * seed + c) for c in range(channels)], axis=1)
        return cls(AudioSpec(rate, channels, form), as_format(x, form), channel_map)

    def mono(self) -> Array:
        return Mixer(self.spec.channels, self.channel_map)(self.frames).astype(np.float64)

    def samples(self, lead: int) -> Array:
        """The 16 kHz signal without DC, float64, of all hops run so far, the lead included."""
        x = signals.resample(self.mono(), self.spec.rate_hz, self.hops * FRAME.hop, lead)
        return signals.remove_dc(x, POLE)


def taken(take: Callable[[], Array | None]) -> Iterator[Array]:
    """Until there is no more."""
    while (piece := take()) is not None:
        yield piece


def join(pipeline: Pipeline, sources: dict[int, Source]) -> None:
    """The sources begin in their slots."""
    cutters = []
    for source in sources.values():
        ratio = pipeline.filters.ratio(source.spec.rate_hz)
        source.cutter = HopCutter(source.spec, source.channel_map, "mean", ratio, pipeline.settings.lead)
        source.cutter.push(source.frames, 0)
        source.pieces = list(taken(source.cutter.take))
        cutters.append(source.cutter)
    history = np.zeros((len(cutters), pipeline.filters.widest), np.float32)
    for row, cutter in zip(history, cutters, strict=True):
        row[: len(cutter.history)] = cutter.history
    records = np.array([c.record for c in cutters])
    pipeline.join(np.array(list(sources), np.intp), records, [c.ratio for c in cutters], history)


def run(pipeline: Pipeline, sources: dict[int, Source], hops: int, features: bool = True) -> None:
    """``hops`` hops of these streams, results appended to each."""
    slots = np.array(list(sources), np.intp)
    mel = pipeline.settings.mel
    for _ in range(hops):
        frames, pcm = pipeline.clock.frames(slots), pipeline.begin(slots)
        for row, source in enumerate(sources.values()):
            piece = source.pieces[source.hops]
            assert len(piece) == frames[row]
            content = np.ascontiguousarray(piece).view(np.uint8).reshape(-1)
            pcm[row, : len(content)] = content
        ticket = pipeline.launch()
        result = pipeline.collect(ticket)
        vectors = pipeline.features(ticket).get() if mel and features else None
        prob = dict(zip(result.vad_rows.tolist(), result.vad_prob.tolist(), strict=True))
        for row, source in enumerate(sources.values()):
            source.asr.append(result.asr[row].copy())
            source.statistics.append(result.statistics[row].copy())
            if row in prob:
                source.vad.append(prob[row])
            source.hops += 1
            if vectors is not None and mel is not None:
                _keep_new_frame(pipeline, source, vectors[row], mel)


def _keep_new_frame(pipeline: Pipeline, source: Source, vector: Array, mel: MelDesign) -> None:
    settings = pipeline.settings
    delay = settings.lead + (settings.trail if settings.blend > 0 else 0)
    now = source.hops * FRAME.hop - delay
    if mel.ready(now) > mel.ready(now - FRAME.hop):
        source.features.append(vector.copy())


@dataclass
class Answer:
    """The float64 reference's results for one source."""

    asr: Array
    vad: Array
    features: Array


def answer(pipeline: Pipeline, source: Source, dtln: DtlnWeights, vad: VadWeights) -> Answer:
    settings = pipeline.settings
    raw = source.samples(settings.lead)
    denoiser = networks.Dtln(dtln)
    clean = np.concatenate([denoiser(hop) for hop in raw.reshape(-1, FRAME.hop)])
    late = np.concatenate((np.zeros(settings.trail), raw))[: len(raw)]
    asr = settings.blend * clean + (1 - settings.blend) * late
    heard = clean[settings.lead + settings.trail :] if settings.vad_denoised else raw[settings.lead :]
    detector = networks.Vad(vad)
    chunks = heard[: len(heard) // FRAME.block * FRAME.block].reshape(-1, FRAME.block)
    shift = settings.lead + (settings.trail if settings.blend > 0 else 0)
    signal = asr[shift:] if settings.blend > 0 else raw[settings.lead :][: len(raw) - shift]
    mel = signals.log_mel(signal, settings.mel) if settings.mel else np.zeros((0, 0))
    return Answer(asr, np.array([detector(chunk) for chunk in chunks]), mel)
