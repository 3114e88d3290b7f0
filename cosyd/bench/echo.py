"""``cosyd bench echo``: how much echo is left, what double talk costs, beside WebRTC and speexdsp."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from cosyd.array.echo import EchoCanceller
from cosyd.array.geometry import Geometry
from cosyd.bench import echo_gain
from cosyd.bench.echo_gain import Words
from cosyd.bench.echo_peers import Canceller, cancellers
from cosyd.bench.parts import Parts, measure
from cosyd.bench.report import Report
from cosyd.bench.scene import Room, Scene, Sound, render
from cosyd.bench.scene_echo import Loudspeaker
from cosyd.bench.speech import Audio, Clip, eval_clips, speech_power
from cosyd.bench.text import normalise
from cosyd.spec import FRAME

ONE = Geometry(((0.0, 0.0, 0.0),), (0,), (1,))  # a microphone and what is played: peers take no more
TALKER = (120.0, 10.0, 1.5)  # azimuth, elevation in degrees, distance in metres
HISS_DB = 50.0  # the microphone's own noise, below the echo or the talker
LEAD_S = 4.0  # of far end before the talker sets in
TAIL_S = 0.5
DELAY_MS = 40.0
ECHOES_DB = (0.0, 10.0)  # of the echo, against the talker
FAR_CLIPS = 24  # half a minute of speech and more
MICS = (1, 4, 7)
FAR, NEAR = "coffee-commands", "librispeech-other"
METHOD = (
    "Scenes of `cosyd.bench.scene`: rooms simulated with the image source method (pyroomacoustics), the "
    f"loudspeaker 15 cm from the array, the talker 1.5 m; noise {HISS_DB:.0f} dB below the echo or the "
    "talker. Far end: coffee-commands (the late start was mended on it), near end: librispeech-other. "
    "*ERLE*: power of the echo over that of what comes out, far end only, the noise counted as what is "
    f"left. WER with Moonshine tiny-en on the whole clip, after {LEAD_S:.0f} s of far end and with "
    f"{DELAY_MS:.0f} ms of delay; *lost* is against the same clip without echo. Delay, jumps and drift are "
    "for each canceller to find out. Gain control is given clips at levels from loud and clipped to quiet, "
    "rounded to 16 bits. CPU is processor time of one thread."
)


@dataclass(frozen=True)
class Scenario:
    """Far end only. ``how``: of the `Loudspeaker`; ``judged_s``: from when to when the echo is measured."""

    name: str
    how: dict[str, Any] = field(default_factory=lambda: {"delay_ms": DELAY_MS})
    rt60_s: float = 0.3
    judged_s: tuple[float, float] = (2.0, 6.0)


_LATER, _JUMPED = (6.0, 12.0), (7.5, 12.0)
SCENARIOS = (
    Scenario("room of 0.3 s"),
    Scenario("room of 0.6 s", rt60_s=0.6),
    Scenario("no delay, as of a hardware loopback", {}),
    Scenario("400 ms of delay", {"delay_ms": 400}),
    Scenario("loudspeaker distorts", {"delay_ms": DELAY_MS, "distorts": True}),
    Scenario("playback 100 ppm fast, after 6 s", {"delay_ms": 20, "drift_ppm": 100}, judged_s=_LATER),
    Scenario("playback 100 ppm slow, after 6 s", {"delay_ms": 20, "drift_ppm": -100}, judged_s=_LATER),
    Scenario("1.5 s after the delay jumps by 50 ms", {"delay_ms": 60, "jump_ms": 50}, judged_s=_JUMPED),
    Scenario("1.5 s after it jumps back by 50 ms", {"delay_ms": 60, "jump_ms": -50}, judged_s=_JUMPED),
)


@lru_cache(maxsize=1)
def _far_clips() -> tuple[Audio, ...]:
    return tuple(_trimmed(clip.audio) for clip in eval_clips(FAR, FAR_CLIPS))


def _trimmed(audio: Audio) -> Audio:
    """Without the silence around the speech, in which there is no echo to measure."""
    loud = np.flatnonzero(np.abs(audio) > 0.1 * np.abs(audio).max())
    return audio[loud[0] : loud[-1] + 1]


def far_end(seconds: float, seed: int) -> Audio:
    """Somebody who speaks on and on, at a steady level."""
    clips = _far_clips()
    order = np.random.default_rng(seed).permutation(len(clips))
    level = [clips[i] * np.float32(0.06 / np.sqrt(speech_power(clips[i]))) for i in order]
    return np.resize(np.concatenate(level), round(seconds * FRAME.rate_hz))


def run(quick: bool = False, only: Sequence[str] = ()) -> dict[str, Any]:
    """``only``: these parts; of the others the kept report's results stay. None named: all."""
    report = Report("echo", "Echo cancellation", METHOD, quick)
    peers, clips = cancellers(), 4 if quick else 24
    parts: Parts = {
        "far_end": lambda report: _far_end_only(report, peers, takes=1 if quick else 2),
        "double_talk": lambda report: _double_talk(report, peers, list(eval_clips(NEAR, clips))),
        "gain": lambda report: echo_gain.measure(report, clips),
        "cost": lambda report: _cost(report, peers, seconds=4 if quick else 20),
    }
    return measure(report, parts, only)


# --- far end only --------------------------------------------------------------------------------------


def _far_end_only(report: Report, peers: dict[str, Canceller], takes: int) -> None:
    rows = []
    for scenario in SCENARIOS:
        found = [_erle(scenario, peers, take) for take in range(takes)]
        values = {name: float(np.mean([erle[name] for erle in found])) for name in peers}
        rows.append((scenario.name, *(f"{value:.1f}" for name, value in values.items() if name != "nothing")))
        report.add(
            f"ERLE, {scenario.name}", values["cosyd"], "dB", target=30, at_least=True, note=f"{takes} takes"
        )
    head = ("far end only", *(name for name in peers if name != "nothing"))
    report.table("Echo return loss enhancement, dB", head, rows)


def _erle(scenario: Scenario, peers: dict[str, Canceller], take: int) -> dict[str, float]:
    seconds = scenario.judged_s[1] + 0.1
    loudspeaker = Loudspeaker(far_end(seconds, take), **scenario.how)
    room = Room(rt60_s=scenario.rt60_s)
    scene = render(ONE, room, [], seconds=seconds, hum_snr_db=HISS_DB, loudspeaker=loudspeaker, seed=take)
    part = slice(*(round(s * FRAME.rate_hz) for s in scenario.judged_s))
    outs = {name: canceller(*_both(scene))[part] for name, canceller in peers.items()}
    echo = np.square(scene.echo[part, 0]).mean()
    return {name: float(10 * np.log10(echo / (np.square(out).mean() + 1e-12))) for name, out in outs.items()}


def _both(scene: Scene) -> tuple[Audio, Audio]:
    """Microphone and reference."""
    return np.ascontiguousarray(scene.frames[:, 0]), np.ascontiguousarray(scene.frames[:, 1])


# --- double talk ---------------------------------------------------------------------------------------


def _double_talk(report: Report, peers: dict[str, Canceller], clips: Sequence[Clip]) -> None:
    """Of the recogniser's words with each canceller, those that it gets wrong."""
    lead = round(LEAD_S * FRAME.rate_hz)
    wer: dict[str, list[float]] = {name: [] for name in peers}
    with Words() as words:
        clean = words.wer(clips, [_talk(clip, None, take)[0] for take, clip in enumerate(clips)])
        for echo_db in ECHOES_DB:
            scenes = [_talk(clip, echo_db, take) for take, clip in enumerate(clips)]
            for name, canceller in peers.items():
                wer[name].append(words.wer(clips, [canceller(*scene)[lead:] for scene in scenes]))
    note = f"{len(clips)} clips; {clean:.1f} % without echo"
    same, louder = wer["cosyd"]
    report.add("WER lost, echo as loud as the talker", same - clean, "points", target=2, note=note)
    report.add("WER lost, echo 10 dB louder", louder - clean, "points", note=note)
    said = sum(len(normalise(clip.text).split()) for clip in clips)
    rows = [("no echo", *[f"{clean:.1f}"] * 2)]
    rows += [(name, *(f"{value:.1f}" for value in values)) for name, values in wer.items()]
    head = ("", "echo as loud as the talker", "echo 10 dB louder")
    report.table(f"WER in double talk, %, {said} words", head, rows)


def _talk(clip: Clip, echo_db: float | None, take: int) -> tuple[Audio, Audio]:
    """Microphone and reference, ``LEAD_S`` before the clip begins; None: nothing is played, and no lead."""
    azimuth, elevation, distance = TALKER
    lead_s = 0.0 if echo_db is None else LEAD_S
    talker = Sound(clip.audio, ((0, azimuth),), distance, elevation, lead_s)
    seconds = lead_s + len(clip.audio) / FRAME.rate_hz + TAIL_S
    loudspeaker = None
    if echo_db is not None:
        loudspeaker = Loudspeaker(far_end(seconds, take), echo_db=echo_db, delay_ms=DELAY_MS)
    scene = render(
        ONE, Room(), [talker], seconds=seconds, hum_snr_db=HISS_DB, loudspeaker=loudspeaker, seed=take
    )
    return _both(scene)


# --- cost ----------------------------------------------------------------------------------------------


def _cost(report: Report, peers: dict[str, Canceller], seconds: float) -> None:
    loudspeaker = Loudspeaker(far_end(seconds, 0))
    scene = render(ONE, Room(), [], seconds=seconds, hum_snr_db=HISS_DB, loudspeaker=loudspeaker)
    microphone, played = _both(scene)
    rows = []
    for name, canceller in peers.items():
        if name != "nothing":
            begun = time.thread_time()
            canceller(microphone, played)
            rows.append((f"{name}, 1 microphone", f"{100 * (time.thread_time() - begun) / seconds:.1f}"))
    for mics in MICS[1:]:
        rows.append((f"cosyd, {mics} microphones", f"{_share(microphone, played, mics):.1f}"))
    report.table("Cost, % of a core", ("", "% of a core"), rows)
    late = EchoCanceller(1).delay / FRAME.rate_hz * 1000
    report.add("Delay of the output", late, "ms", note="a block of 16 ms is filled, and frames overlap")


def _share(microphone: Audio, played: Audio, mics: int) -> float:
    canceller = EchoCanceller(mics)
    rows = np.concatenate([np.tile(microphone, (mics, 1)), played[None]])
    begun = time.thread_time()
    for at in range(0, rows.shape[1] - FRAME.block + 1, FRAME.block):
        canceller.process(rows[:, at : at + FRAME.block])
    return float(100 * (time.thread_time() - begun) / (rows.shape[1] / FRAME.rate_hz))
