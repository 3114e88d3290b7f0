"""``cosyd bench echo``: how much echo is left, what double talk costs, beside WebRTC and speexdsp."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from cosyd.array.agc import GainControl
from cosyd.array.echo import EchoCanceller
from cosyd.array.echo_reference import ReferenceLine
from cosyd.array.geometry import Geometry
from cosyd.asr.recognizer import SegmentRecognizer, SegmentRequest
from cosyd.asr.recognizers import load_recognizer
from cosyd.bench.echo_peers import Canceller, cancellers
from cosyd.bench.report import Report
from cosyd.bench.scene import Room, impulse_responses
from cosyd.bench.speech import Audio, Clip, eval_clips, speech_power
from cosyd.bench.text import normalise
from cosyd.config.paths import Paths
from cosyd.config.schema import ArrayConfig, AsrConfig, FrontendConfig, PathsConfig
from cosyd.models.store import ModelStore
from cosyd.spec import FRAME

GEOMETRY = Geometry.of(ArrayConfig(geometry="square-4"))
LOUDSPEAKER = (30.0, -20.0, 0.15)  # azimuth, elevation in degrees, distance in metres: below the microphones
TALKER = (120.0, 10.0, 1.5)
ECHO_DB = -30.0  # level of the echo at the microphone, dBFS while something is played
HISS_DB = -50.0  # the microphone's own noise, against the echo
LEAD_S = 4.0  # of far end before the talker sets in
TAIL_S = 0.5
FAR_CLIPS = 24  # half a minute of speech and more
MICS = (1, 4, 7)
FAR, NEAR = "coffee-commands", "librispeech-other"
METHOD = (
    "Rooms simulated with the image source method (pyroomacoustics); the loudspeaker 15 cm from the array, "
    f"the talker 1.5 m; the microphone's noise {-HISS_DB:.0f} dB below the echo. Far end: coffee-commands, "
    "near end: librispeech-other (neither was used to tune). *ERLE*: power of the echo over that of what "
    "comes out, far end only, the microphone's noise counted as what is left. WER with Moonshine tiny-en on "
    "the whole clip, after 4 s of far end and with 40 ms of delay; *lost* is against the same clip without "
    "echo. Delay, jumps and drift are for each canceller to find out. Gain control is given the clips "
    "at three levels, rounded to 16 bits. CPU is of one thread."
)


@dataclass(frozen=True)
class Scenario:
    """Far end only. ``judged_s``: from when to when the echo is measured."""

    name: str
    rt60_s: float = 0.3
    delay_ms: float = 0.0
    drift_ppm: float = 0.0
    jump_ms: float = 0.0  # after 6 s
    distortion: bool = False
    judged_s: tuple[float, float] = (2.0, 6.0)


SCENARIOS = (
    Scenario("room of 0.3 s", delay_ms=40),
    Scenario("room of 0.6 s", rt60_s=0.6, delay_ms=40),
    Scenario("no delay, as of a hardware loopback"),
    Scenario("400 ms of delay", delay_ms=400),
    Scenario("loudspeaker distorts", delay_ms=40, distortion=True),
    Scenario("playback 100 ppm fast, after 6 s", delay_ms=20, drift_ppm=100, judged_s=(6.0, 12.0)),
    Scenario("playback 100 ppm slow, after 6 s", delay_ms=20, drift_ppm=-100, judged_s=(6.0, 12.0)),
    Scenario("1.5 s after the delay jumps by 50 ms", delay_ms=60, jump_ms=50, judged_s=(7.5, 12.0)),
    Scenario("1.5 s after the delay jumps back by 50 ms", delay_ms=60, jump_ms=-50, judged_s=(7.5, 12.0)),
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


def through(sound: Audio, place: tuple[float, float, float], rt60_s: float) -> Audio:
    """At the first microphone, by FFT."""
    response = impulse_responses(GEOMETRY, Room(rt60_s=rt60_s), *place)[0]
    size = 1 << (len(sound) + len(response) - 1).bit_length()
    heard = np.fft.irfft(np.fft.rfft(sound, size) * np.fft.rfft(response, size), size)
    return np.asarray(heard[: len(sound)], np.float32)


def scaled(sound: Audio, db: float) -> Audio:
    """To this level, dBFS of the stretches in which there is sound."""
    return sound * np.float32(10 ** (db / 20) / np.sqrt(speech_power(sound)))


def hiss(count: int, seed: int) -> Audio:
    noise = np.random.default_rng(seed).standard_normal(count, np.float32)
    return noise * np.float32(10 ** ((ECHO_DB + HISS_DB) / 20))


def echo_of(scenario: Scenario, played: Audio) -> Audio:
    """The echo alone, at the microphone."""
    sound = np.tanh(8 * played) / 8 if scenario.distortion else played
    echo = _late(through(sound.astype(np.float32), LOUDSPEAKER, scenario.rt60_s), scenario.delay_ms)
    if scenario.jump_ms:
        at = 6 * FRAME.rate_hz
        echo = np.concatenate([echo[:at], _late(echo, scenario.jump_ms)[at:]])
    if scenario.drift_ppm:
        echo = _drifting(echo, scenario.drift_ppm)
    return scaled(echo, ECHO_DB)


def _late(sound: Audio, ms: float) -> Audio:
    samples = round(ms * FRAME.rate_hz / 1000)
    if samples < 0:
        return np.pad(sound[-samples:], (0, -samples))
    return np.pad(sound, (samples, 0))[: len(sound)]


def _drifting(sound: Audio, ppm: float) -> Audio:
    ratio, step = 1 + ppm * 1e-6, 4_096
    line = ReferenceLine(1, len(sound))
    line.write(sound[None])
    pieces = [
        line.read(at * ratio, min(step, len(sound) - at), ratio)[0] for at in range(0, len(sound), step)
    ]
    return np.concatenate(pieces)


def run(quick: bool) -> dict[str, Any]:
    report = Report("echo", "Echo cancellation", METHOD, quick)
    peers = cancellers()
    _far_end_only(report, peers, takes=1 if quick else 2)
    store = ModelStore(Paths.resolve(PathsConfig()).models)
    recognizer = load_recognizer(AsrConfig(), store)
    chosen = list(eval_clips(NEAR, 4 if quick else 16))
    _double_talk(report, peers, recognizer, chosen)
    _gain(report, recognizer, chosen)
    recognizer.close()
    _cost(report, peers, seconds=4 if quick else 20)
    return report.as_dict()


# --- far end only --------------------------------------------------------------------------------------


def _far_end_only(report: Report, peers: dict[str, Canceller], takes: int) -> None:
    rows = []
    for scenario in SCENARIOS:
        values = {
            name: float(np.mean([_erle(scenario, peer, take) for take in range(takes)]))
            for name, peer in peers.items()
        }
        rows.append((scenario.name, *(f"{value:.1f}" for name, value in values.items() if name != "nothing")))
        report.add(
            f"ERLE, {scenario.name}", values["cosyd"], "dB", target=30, at_least=True, note=f"{takes} takes"
        )
    head = ("far end only", *(name for name in peers if name != "nothing"))
    report.table("Echo return loss enhancement, dB", head, rows)


def _erle(scenario: Scenario, canceller: Canceller, take: int) -> float:
    played = far_end(scenario.judged_s[1] + 0.1, take)
    echo = echo_of(scenario, played)
    out = canceller(echo + hiss(len(echo), take), played)
    part = slice(*(round(s * FRAME.rate_hz) for s in scenario.judged_s))
    return float(10 * np.log10(np.square(echo[part]).mean() / (np.square(out[part]).mean() + 1e-12)))


# --- double talk ---------------------------------------------------------------------------------------


def _double_talk(
    report: Report, peers: dict[str, Canceller], recognizer: SegmentRecognizer, chosen: Sequence[Clip]
) -> None:
    clean = _wer(recognizer, chosen, [_near(clip)[0] for clip in chosen])
    rows = [("no echo", *[f"{clean:.1f}"] * 2)]
    for name, canceller in peers.items():
        wer = [_wer(recognizer, chosen, _talks(chosen, canceller, ser)) for ser in (0.0, -10.0)]
        rows.append((name, *(f"{value:.1f}" for value in wer)))
        if name == "cosyd":
            note = f"{len(chosen)} clips; {clean:.1f} % without echo"
            report.add("WER lost, echo as loud as the talker", wer[0] - clean, "points", target=2, note=note)
            report.add("WER lost, echo 10 dB louder", wer[1] - clean, "points", note=note)
    report.table("WER in double talk, %", ("", "echo as loud as the talker", "echo 10 dB louder"), rows)


def _near(clip: Clip) -> tuple[Audio, Audio]:
    """The clip in the room with the microphone's noise, from where the talker sets in; and before it."""
    lead, tail = round(LEAD_S * FRAME.rate_hz), round(TAIL_S * FRAME.rate_hz)
    sound = scaled(through(np.pad(clip.audio, (lead, tail)), TALKER, 0.3), ECHO_DB)
    return (sound + hiss(len(sound), 1))[lead:], sound


def _talks(clips: Sequence[Clip], canceller: Canceller, ser_db: float) -> list[Audio]:
    """What the recogniser gets of each clip."""
    lead = round(LEAD_S * FRAME.rate_hz)
    heard = []
    for take, clip in enumerate(clips):
        near = _near(clip)[1]
        played = far_end(len(near) / FRAME.rate_hz, take)
        echo = scaled(_late(through(played, LOUDSPEAKER, 0.3), 40), ECHO_DB - ser_db)
        heard.append(canceller(near + echo + hiss(len(near), 1), played)[lead:])
    return heard


def _wer(recognizer: SegmentRecognizer, clips: Sequence[Clip], heard: Sequence[Audio]) -> float:
    import jiwer

    texts = [recognizer.transcribe([SegmentRequest(np.ascontiguousarray(audio))])[0].text for audio in heard]
    said, understood = [normalise(clip.text) for clip in clips], [normalise(text) for text in texts]
    share: float = jiwer.wer(said, understood)
    return 100 * share


# --- gain ----------------------------------------------------------------------------------------------


def _gain(report: Report, recognizer: SegmentRecognizer, chosen: Sequence[Clip]) -> None:
    """Whether speech at one level helps the recogniser: quiet speech in 16 bits, as it is and levelled."""
    rows = []
    for db in (-20.0, -40.0, -60.0):
        quiet = [np.round(scaled(clip.audio, db) * 32_768) / np.float32(32_768) for clip in chosen]
        plain = _wer(recognizer, chosen, quiet)
        levelled = _wer(recognizer, chosen, [_levelled(audio) for audio in quiet])
        rows.append((f"{db:.0f} dBFS", f"{plain:.1f}", f"{levelled:.1f}"))
    report.table("WER by the level of speech, %", ("", "as it is", "frontend.agc"), rows)


def _levelled(audio: Audio) -> Audio:
    config = FrontendConfig()
    gain = GainControl(config.agc_level_db, config.agc_most_db)
    padded = np.pad(audio, (0, -len(audio) % FRAME.block)).reshape(-1, FRAME.block)
    return np.concatenate([gain.process(block, 1.0) for block in padded])


# --- cost ----------------------------------------------------------------------------------------------


def _cost(report: Report, peers: dict[str, Canceller], seconds: float) -> None:
    played = far_end(seconds, 0)
    microphone = scaled(through(played, LOUDSPEAKER, 0.3), ECHO_DB)
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
