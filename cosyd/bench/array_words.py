"""What beams are worth: word errors, SI-SDR and PESQ of a voice beside a noise from another place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cosyd.array.geometry import Geometry
from cosyd.asr.moonshine import Moonshine
from cosyd.asr.recognizer import SegmentRequest
from cosyd.bench import array_scenes, speech
from cosyd.bench.array_scenes import LEAD_S, disturbed, hear
from cosyd.bench.report import Report
from cosyd.bench.scene import Room, Scene
from cosyd.bench.signals import Tally
from cosyd.bench.speech import Audio, Clip
from cosyd.bench.text import normalise
from cosyd.config.schema import ArrayConfig
from cosyd.models.configured import configured_store
from cosyd.spec import FRAME

SNR_DB = (10, 5, 0)
BEAMS = ("off", "delay-sum", "superdirective", "mvdr")
TOLD = "mvdr, told where"  # what is lost by having to find the talker
ROOM = Room(rt60_s=0.3)
BEFORE_S = 0.3  # of what comes before a clip that the recogniser is given, as the daemon's pre-roll
NOTHING = 1e-6  # of the denoised signal: the beam learns from the denoiser, nobody else hears it


def recognition(report: Report, each: int) -> None:
    """Word errors a beam and SNR, with ``each`` clips of every set."""
    front_end, tally = array_scenes.open_front_end(), Tally()
    asr = Moonshine.load(configured_store().require("moonshine-tiny-en"))
    said = 0
    for snr_db, clip, scene in _scenes(each, SNR_DB):
        said += len(normalise(clip.text).split())
        for name, config in _beams(scene):
            audio = hear(front_end, scene.frames, config).audio[round((LEAD_S - BEFORE_S) * FRAME.rate_hz) :]
            text = normalise(asr.transcribe([SegmentRequest(audio)])[0].text)
            tally.add_text(str(snr_db), name, normalise(clip.text), text)
    names = [str(snr_db) for snr_db in SNR_DB]
    rows = [
        [beam, *(f"{tally.wer([name], beam):.1f}" for name in names), f"{tally.wer(names, beam):.1f}"]
        for beam in (*BEAMS, TOLD)
    ]
    head = ("beam (off: one microphone)", *(f"{name} dB" for name in names), "all")
    words = said // len(SNR_DB)
    report.table(f"Word errors in %, {words} words a cell, 4 microphones, RT60 0.3 s", head, rows)
    for which in (*([name] for name in names), names):
        ratio = 100 * tally.wer(which, "mvdr") / max(1e-9, tally.wer(which, "off"))
        note = f"mvdr, {' and '.join(which)} dB"
        report.add(f"wer_beam_to_single_{'_'.join(which)}", ratio, "%", target=70, note=note)


def quality(report: Report, each: int) -> None:
    """SI-SDR and PESQ of the beam's output, before the denoiser, against the talker's early sound."""
    from pesq import pesq

    front_end = array_scenes.open_front_end(asr_input="blend", blend=NOTHING)
    found: dict[str, list[tuple[float, float]]] = {}
    for _, clip, scene in _scenes(each, (5,)):
        begin = round(LEAD_S * FRAME.rate_hz)
        end = begin + len(clip.audio)
        truth = scene.early[begin:end, 0]
        for name, config in _beams(scene):
            audio = hear(front_end, scene.frames, config).audio[begin:end]
            values = si_sdr_db(audio, truth), float(pesq(FRAME.rate_hz, truth, audio, "wb"))
            found.setdefault(name, []).append(values)
    means = {beam: np.mean(values, axis=0) for beam, values in found.items()}
    off = means["off"]
    rows = [
        [beam, f"{m[0]:.1f}", f"{m[0] - off[0]:+.1f}", f"{m[1]:.2f}", f"{m[1] - off[1]:+.2f}"]
        for beam, m in means.items()
    ]
    report.table(f"At 5 dB, {2 * each} clips", ("beam", "SI-SDR dB", "gain", "PESQ", "gain"), rows)


def _scenes(each: int, snrs: Sequence[int]) -> Iterator[tuple[int, Clip, Scene]]:
    geometry = Geometry.of(ArrayConfig(geometry="square-4"))
    noises = [speech.noise(name) for name in array_scenes.NOISES]
    for turn, clip in enumerate(array_scenes.clips(each)):
        for snr_db in snrs:
            yield snr_db, clip, disturbed(geometry, ROOM, clip, noises[turn % len(noises)], snr_db, turn)


def _beams(scene: Scene) -> Iterator[tuple[str, ArrayConfig]]:
    for beam in BEAMS:
        yield beam, ArrayConfig(geometry="square-4", beamformer=beam)  # type: ignore[arg-type]
    azimuth = scene.truth[0].azimuths[0]
    yield TOLD, ArrayConfig(geometry="square-4", steer="fixed", azimuth_deg=azimuth)


def si_sdr_db(estimate: Audio, truth: Audio) -> float:
    """Scale-invariant signal-to-distortion ratio (Le Roux et al. 2019)."""
    part = (estimate @ truth) / (truth @ truth) * truth
    return float(10 * np.log10((part @ part) / np.square(estimate - part).sum()))
