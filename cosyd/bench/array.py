"""``cosyd bench array``: how exactly directions are found, what beams are worth, what it all costs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from cosyd.array.path import ArrayPath
from cosyd.bench import array_directions, array_words
from cosyd.bench.parts import Parts, measure
from cosyd.bench.report import Report
from cosyd.bench.scene import Room, Sound, render
from cosyd.config.schema import ArrayConfig
from cosyd.spec import FRAME

WARM_BLOCKS = 20
METHOD = (
    "Rooms of 6 x 5 x 2.8 m simulated by image sources. Directions: one talker 2 m away, 8 degrees above the "
    "array, the evaluation speech (the first 6 s of each clip), pink noise from all around or a noise "
    "(kitchen, tap, dishes, bike) from one place; DTLN and VAD as in the daemon. In the stream every block "
    "of 32 ms with speech gives the azimuth of whoever speaks, from what was heard until then. Beside it "
    "pyroomacoustics on the same spectra (16 ms windows, 8 ms hop), the same band, in steps of 1 degree: on "
    "each second of them, and on all blocks of the utterance with speech at once, to which belongs what the "
    "final of the utterance carries. Recognition: the evaluation speech from 1.5 to 2.5 m, a noise from "
    "elsewhere, SNR at the first microphone; the front end's output goes whole to Moonshine tiny-en; beams "
    "find the talker themselves, except in the last row. SI-SDR and PESQ (wide band) of the beam's output, "
    "before the denoiser, against what the first microphone hears of the talker alone within 50 ms of the "
    "direct sound. Cost: processor time of one thread."
)


def run(quick: bool = False, only: Sequence[str] = ()) -> dict[str, Any]:
    """``only``: these parts; of the others the kept report's results stay. None named: all."""
    report = Report("array", "Microphone arrays", METHOD, quick)
    parts: Parts = {
        "directions": lambda report: array_directions.measure(report, 2 if quick else 8),
        "recognition": lambda report: array_words.recognition(report, 1 if quick else 12),
        "quality": lambda report: array_words.quality(report, 2 if quick else 6),
        "speed": lambda report: array_directions.speed(report, 5 if quick else 40),
        "cost": lambda report: _costs(report, 5.0 if quick else 20.0),
    }
    return measure(report, parts, only)


def _costs(report: Report, seconds: float) -> None:
    """The whole path, the learning included, of one stream with 8 microphones."""
    rows = []
    for doa in ("2d", "3d"):
        share = _cost(_circle(doa), seconds)
        rows.append([doa, f"{100 * share:.1f}"])
        if doa == "2d":
            report.add("cost_8_microphones", 100 * share, "% of a core", target=15)
    report.table("8 microphones, adaptive beam, someone speaks all the time", ("doa", "% of a core"), rows)
    delay_ms = 1e3 * ArrayPath(_circle("2d")).delay / FRAME.rate_hz
    report.add("latency_added", delay_ms, "ms", target=FRAME.hop_ms, note="one hop; beams look not ahead")


def _circle(doa: str) -> ArrayConfig:
    turns = np.radians(np.arange(8) * 45.0)
    positions = tuple((round(0.045 * np.cos(a), 4), round(0.045 * np.sin(a), 4)) for a in turns)
    return ArrayConfig(positions_m=positions, doa=doa)  # type: ignore[arg-type]


def _cost(config: ArrayConfig, seconds: float) -> float:
    """Processor time a second of audio."""
    path = ArrayPath(config, 3 * FRAME.hop)
    rng = np.random.default_rng(0)
    count = round(seconds * FRAME.rate_hz / FRAME.block)
    voice = (0.1 * rng.standard_normal((count + WARM_BLOCKS) * FRAME.block)).astype(np.float32)
    open_air = render(path.geometry, Room(rt60_s=0), [Sound(voice, ((0, 40.0),))], hum_snr_db=10.0)
    blocks = np.ascontiguousarray(open_air.frames.T)
    begin = 0.0
    for number in range(-WARM_BLOCKS, count):
        if number == 0:
            begin = time.process_time()
        at = (number + WARM_BLOCKS) * FRAME.block
        mono = path.process(blocks[:, at : at + FRAME.block])
        path.heard(mono, mono * np.float32(0.5), 0.9)
    return (time.process_time() - begin) / seconds
