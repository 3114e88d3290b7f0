"""``cosyd bench array``: how exactly directions are found, what beams are worth, what it all costs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.array.geometry import Geometry, angles, wrap
from cosyd.array.locate import Locator
from cosyd.array.path import ArrayPath
from cosyd.array.srp import BAND_HZ
from cosyd.array.stft import SIZE, Analysis
from cosyd.asr.moonshine import Moonshine
from cosyd.asr.recognizer import SegmentRequest
from cosyd.bench import array_scenes, speech
from cosyd.bench.array_scenes import LEAD_S, PLACES_DEG, Heard, best, disturbed, hear, spoken
from cosyd.bench.report import Report
from cosyd.bench.scene import Room, Scene
from cosyd.bench.signals import Tally
from cosyd.bench.speech import Audio, Clip
from cosyd.bench.text import normalise
from cosyd.config.paths import Paths
from cosyd.config.schema import ArrayConfig, PathsConfig
from cosyd.models.store import ModelStore
from cosyd.spec import FRAME

ARRAYS = {"4 mics, 6.5 cm circle": "square-4", "7 mics, 8.6 cm": "uma-8"}
ROOMS_S = (0.3, 0.6)
HUM_DB = (20, 10, 0)
SNR_DB = (10, 5, 0)
BEAMS = ("off", "delay-sum", "superdirective", "mvdr")
WINDOW_S = 1.0  # of one estimate of those who give one a window
GROSS_DEG = 15.0
SPOKEN = 0.5  # probability of speech from which a block counts
PEERS = ("SRP", "MUSIC", "NormMUSIC")
NOTHING = 1e-6  # of the denoised signal: the beam learns from the denoiser, nobody else hears it
METHOD = (
    "Rooms of 6 x 5 x 2.8 m simulated by image sources. Directions: one talker 2 m away, 8 degrees above the "
    "array, pink noise from all around; in the stream, every block of 32 ms with speech gives the azimuth of "
    "whoever speaks (DTLN and VAD as in the daemon); beside it, on windows of 1 s of the same spectra "
    "(16 ms windows, 8 ms hop), one estimate each of cosyd's steered power alone and of pyroomacoustics, "
    "which looks at the same band in steps of 1 degree. Recognition: the evaluation speech from 1.5 to 2.5 "
    "m, a noise (kitchen, tap, dishes, bike) from elsewhere, SNR at the first microphone; the front end's "
    "output goes whole to Moonshine tiny-en; adaptive beams find the talker themselves. SI-SDR and PESQ "
    "(wide band) of the beam's output, before the denoiser, against the talker alone, room included, at the "
    "first microphone."
)


def run(quick: bool = False) -> dict[str, Any]:
    report = Report("array", "Microphone arrays", METHOD, quick)
    _directions(report, 1 if quick else len(PLACES_DEG))
    _costs(report, 5.0 if quick else 20.0)
    _recognition(report, 1 if quick else 8)
    _quality(report, 2 if quick else 6)
    return report.as_dict()


# --- directions ----------------------------------------------------------------------------------------


class _Errors:
    """Degrees off, a list a way of finding them, and the seconds it took."""

    def __init__(self) -> None:
        self.errors: dict[str, list[float]] = {}
        self.spent: dict[str, float] = {}

    def add(self, way: str, azimuth: float, truth: float, spent_s: float = 0.0) -> None:
        self.errors.setdefault(way, []).append(abs(wrap(azimuth - truth)))
        self.spent[way] = self.spent.get(way, 0.0) + spent_s

    def median(self, way: str) -> float:
        return float(np.median(self.errors.get(way, [180.0])))

    def gross(self, way: str) -> float:
        """Percent."""
        return 100 * float((np.array(self.errors.get(way, [180.0])) > GROSS_DEG).mean())


STREAM, ALONE = "cosyd, in the stream", "cosyd, steered power alone"


def _directions(report: Report, places: int) -> None:
    front_end = array_scenes.open_front_end()
    found = list(zip(array_scenes.clips(places), PLACES_DEG, strict=False))
    rows: list[list[str]] = []
    total = _Errors()
    for name, preset in ARRAYS.items():
        geometry = Geometry.of(ArrayConfig(geometry=preset))  # type: ignore[arg-type]
        for rt60_s in ROOMS_S:
            for hum_db in HUM_DB:
                errors = _Errors()
                for number, (clip, azimuth) in enumerate(found):
                    scene = spoken(geometry, Room(rt60_s=rt60_s), clip, azimuth, hum_db, number)
                    heard = hear(front_end, scene.frames, ArrayConfig(geometry=preset))  # type: ignore[arg-type]
                    for into in (errors, total):
                        _in_stream(into, heard, azimuth)
                    _windows(errors, total, geometry, scene, heard, azimuth)
                rows += _rows(f"{name}, {rt60_s:g} s, {hum_db} dB", errors)
                if (rt60_s, hum_db) == (0.3, 10):
                    _goals(report, name, errors)
    report.table(
        "Azimuth: median error in degrees / share off by more than 15 degrees in %",
        ("array, RT60, SNR", STREAM, ALONE, *PEERS),
        rows,
    )
    _speed(report, total)


def _rows(name: str, errors: _Errors) -> list[list[str]]:
    ways = (STREAM, ALONE, *PEERS)
    return [[name, *(f"{errors.median(way):.1f} / {errors.gross(way):.0f}" for way in ways)]]


def _goals(report: Report, name: str, errors: _Errors) -> None:
    key = name.split()[0]
    note = f"{name}, RT60 0.3 s, 10 dB"
    report.add(f"azimuth_error_{key}", errors.median(STREAM), "degrees", target=3, note=note)
    report.add(f"azimuth_gross_{key}", errors.gross(STREAM), "%", target=5, note=note)


def _in_stream(errors: _Errors, heard: Heard, truth: float) -> None:
    for prob, voices in zip(heard.prob, heard.voices, strict=True):
        voice = best(voices)
        if prob >= SPOKEN and voice is not None:
            errors.add(STREAM, voice.azimuth_deg, truth)


def _windows(
    errors: _Errors, total: _Errors, geometry: Geometry, scene: Scene, heard: Heard, truth: float
) -> None:
    """Windows with speech in more than half of their blocks, to every way that looks at windows."""
    frames = scene.frames[: len(scene.frames) // FRAME.block * FRAME.block, list(geometry.channels)]
    spectra = Analysis(geometry.microphones)(np.ascontiguousarray(frames.T))
    locator = Locator(geometry, space=False, talkers=1)
    hops = round(WINDOW_S * FRAME.rate_hz / FRAME.hop)
    for first in range(0, len(spectra) - hops + 1, hops):
        start = first * FRAME.hop
        inside = (heard.samples >= start) & (heard.samples < start + hops * FRAME.hop)
        if not inside.any() or (heard.prob[inside] >= SPOKEN).mean() <= 0.5:
            continue
        window = spectra[first : first + hops]
        for into in (errors, total):
            _alone(into, locator, window, truth)
            for peer in PEERS:
                _peer(into, peer, geometry, window, truth)


def _alone(errors: _Errors, locator: Locator, window: NDArray[np.complex64], truth: float) -> None:
    begin = time.process_time()
    peaks = locator.peaks(locator.average(window))
    spent = time.process_time() - begin
    errors.add(ALONE, angles(peaks[0].direction)[0] if peaks else truth + 180, truth, spent)


def _peer(
    errors: _Errors, name: str, geometry: Geometry, window: NDArray[np.complex64], truth: float
) -> None:
    import pyroomacoustics

    kind = pyroomacoustics.doa.algorithms[name]
    finder = kind(geometry.centred[:, :2].T, FRAME.rate_hz, SIZE, num_src=1, n_grid=360)
    x = np.ascontiguousarray(window.transpose(1, 2, 0), np.complex128)
    begin = time.process_time()
    finder.locate_sources(x, freq_range=list(BAND_HZ))
    spent = time.process_time() - begin
    azimuths = np.degrees(finder.azimuth_recon)
    errors.add(name, float(azimuths[0]) if len(azimuths) else truth + 180, truth, spent)


def _speed(report: Report, total: _Errors) -> None:
    """Milliseconds a second of audio, of which each makes one estimate."""
    spent = {w: 1e3 * total.spent[w] / len(total.errors[w]) / WINDOW_S for w in (ALONE, *PEERS)}
    report.table(
        "Processor time for one second of audio",
        ("way", "ms", "estimates", "times cosyd's"),
        [[way, f"{ms:.1f}", "1", f"{ms / spent[ALONE]:.0f}"] for way, ms in spent.items()],
    )
    least = min(spent[peer] for peer in PEERS) / spent[ALONE]
    report.add(
        "speed_against_fastest_peer", least, "times", target=10, at_least=True, note="per second of audio"
    )
    report.add(
        "speed_against_peer_srp", spent["SRP"] / spent[ALONE], "times", target=10, at_least=True,
        note="the same method",
    )  # fmt: skip
    ours, theirs = total.median(ALONE), min(total.median(peer) for peer in PEERS)
    report.add("azimuth_error_alone", ours, "degrees", target=theirs, note="all rooms; target: best peer")


# --- what it costs -------------------------------------------------------------------------------------


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
    x = (0.1 * rng.standard_normal((8, FRAME.block))).astype(np.float32)
    begin = 0.0
    for number in range(-20, count):  # the first to warm up
        if number == 0:
            begin = time.process_time()
        mono = path.process(x)
        path.heard(mono, mono * np.float32(0.5), 0.9)
    return (time.process_time() - begin) / seconds


# --- what beams are worth ------------------------------------------------------------------------------


def _scenes(each: int, snrs: Sequence[int]) -> Iterator[tuple[int, Clip, Scene]]:
    geometry = Geometry.of(ArrayConfig(geometry="square-4"))
    noises = [speech.noise(name) for name in ("kitchen", "tap", "dishes", "bike")]
    for turn, clip in enumerate(array_scenes.clips(each)):
        for snr_db in snrs:
            noise = noises[turn % len(noises)]
            yield snr_db, clip, disturbed(geometry, Room(rt60_s=0.3), clip, noise, snr_db, turn)


def _recognition(report: Report, each: int) -> None:
    front_end, tally = array_scenes.open_front_end(), Tally()
    asr = Moonshine.load(ModelStore(Paths.resolve(PathsConfig()).models).require("moonshine-tiny-en"))
    for snr_db, clip, scene in _scenes(each, SNR_DB):
        for beam in BEAMS:
            heard = hear(front_end, scene.frames, _with(beam))
            audio = heard.audio[round((LEAD_S - 0.3) * FRAME.rate_hz) :]
            text = normalise(asr.transcribe([SegmentRequest(audio)])[0].text)
            tally.add_text(str(snr_db), beam, normalise(clip.text), text)
    names = [str(snr_db) for snr_db in SNR_DB]
    rows = [
        [beam, *(f"{tally.wer([name], beam):.1f}" for name in names), f"{tally.wer(names, beam):.1f}"]
        for beam in BEAMS
    ]
    head = ("beam (off: one microphone)", *(f"{name} dB" for name in names), "all")
    report.table(f"Word errors in %, {2 * each} clips, 4 microphones, RT60 0.3 s", head, rows)
    ratio = 100 * tally.wer(names, "mvdr") / max(1e-9, tally.wer(names, "off"))
    report.add("wer_beam_to_single", ratio, "%", target=70, note="mvdr, 0 to 10 dB together")


def _with(beam: str) -> ArrayConfig:
    return ArrayConfig(geometry="square-4", beamformer=beam)  # type: ignore[arg-type]


def _quality(report: Report, each: int) -> None:
    from pesq import pesq

    front_end = array_scenes.open_front_end(asr_input="blend", blend=NOTHING)
    found: dict[str, list[tuple[float, float]]] = {beam: [] for beam in BEAMS}
    for _, clip, scene in _scenes(each, (5,)):
        begin = round(LEAD_S * FRAME.rate_hz)
        end = begin + len(clip.audio)
        for beam in BEAMS:
            audio = hear(front_end, scene.frames, _with(beam)).audio[begin:end]
            truth = scene.target[begin:end, 0]
            found[beam].append((si_sdr_db(audio, truth), float(pesq(FRAME.rate_hz, truth, audio, "wb"))))
    means = {beam: np.mean(values, axis=0) for beam, values in found.items()}
    rows = [[b, f"{m[0]:.1f}", f"{m[0] - means['off'][0]:+.1f}", f"{m[1]:.2f}"] for b, m in means.items()]
    report.table("At 5 dB", ("beam", "SI-SDR dB", "gain dB", "PESQ"), rows)


def si_sdr_db(estimate: Audio, truth: Audio) -> float:
    """Scale-invariant signal-to-distortion ratio (Le Roux et al. 2019)."""
    part = (estimate @ truth) / (truth @ truth) * truth
    return float(10 * np.log10((part @ part) / np.square(estimate - part).sum()))
