"""How exactly directions are found: the daemon's stream beside pyroomacoustics, on the same scenes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cosyd.array.geometry import Geometry, angles, wrap
from cosyd.array.locate import Locator
from cosyd.array.record import VoiceRecord
from cosyd.array.stft import SIZE, Analysis
from cosyd.array.whitened import BAND_HZ
from cosyd.bench import array_scenes, speech
from cosyd.bench.array_scenes import PLACES_DEG, Heard, best, disturbed, hear, spoken
from cosyd.bench.report import Report
from cosyd.bench.scene import Room, Scene
from cosyd.bench.speech import Clip
from cosyd.config.schema import ArrayConfig
from cosyd.frontend.front_end import FrontEnd
from cosyd.spec import FRAME

ARRAYS = {"4 mics, 6.5 cm circle": "square-4", "7 mics, 8.6 cm": "uma-8"}
ROOMS_S = (0.3, 0.6)
HUM_DB = (20, 10, 0)
NOISE_DB = (10, 5, 0)
LONGEST_S = 6.0  # of an utterance: the rest would only repeat what was found
WINDOW_S = 1.0  # of one estimate of those who give one a window
GROSS_DEG = 15.0
SPOKEN = 0.5  # probability of speech from which a block counts
PEERS = ("SRP", "MUSIC", "NormMUSIC")
STREAM, FINAL, ALONE = "stream", "final", "steered power alone"

Window = NDArray[np.complex64]  # [hops, microphones, bins]


class Errors:
    """Degrees off, a list a way of finding them, and the seconds it took."""

    def __init__(self) -> None:
        self.errors: dict[str, list[float]] = {}
        self.spent: dict[str, float] = {}

    def add(self, way: str, azimuth: float, truth: float, spent_s: float = 0.0) -> None:
        self.errors.setdefault(way, []).append(abs(wrap(azimuth - truth)))
        self.spent[way] = self.spent.get(way, 0.0) + spent_s

    def extend(self, other: Errors) -> None:
        for way, errors in other.errors.items():
            self.errors.setdefault(way, []).extend(errors)
            self.spent[way] = self.spent.get(way, 0.0) + other.spent[way]

    def median(self, way: str) -> float:
        return float(np.median(self.errors.get(way, [180.0])))

    def gross(self, way: str) -> float:
        """Percent."""
        return 100 * float((np.array(self.errors.get(way, [180.0])) > GROSS_DEG).mean())

    def cell(self, way: str) -> str:
        return f"{self.median(way):.1f} / {self.gross(way):.0f}"


@dataclass(frozen=True)
class _Case:
    """A scene a turn: which one, of which clip, and where its talker is."""

    name: str
    preset: str
    make: Callable[[int, Clip], tuple[Scene, float]]


def measure(report: Report, clips: int) -> None:
    """Tables of errors a block and an utterance; ``clips`` scenes a row."""
    front_end = array_scenes.open_front_end()
    chosen = [_short(clip) for clip in array_scenes.clips(-(-clips // 2))][:clips]
    total = Errors()
    rows: list[tuple[str, Errors]] = []
    for case in _cases():
        errors = _case(front_end, case, chosen)
        rows.append((case.name, errors))
        total.extend(errors)
    _goals(report, dict(rows))
    rows.append(("all", total))
    head = "array, RT60, SNR"
    report.table(
        "Azimuth in the stream: median error in degrees / share off by more than 15 degrees in %",
        (head, "cosyd, every block", *(f"{peer}, of 1 s" for peer in PEERS)),
        [(name, *(e.cell(way) for way in (STREAM, *map(_of_window, PEERS)))) for name, e in rows],
    )
    report.table(
        f"Azimuth of the utterance, {clips} a row, likewise",
        (head, "cosyd, what the final carries", *PEERS),
        [(name, *(e.cell(way) for way in (FINAL, *PEERS))) for name, e in rows],
    )
    _against_best(report, total)


def speed(report: Report, windows: int) -> None:
    """Processor time of one estimate from one second of 4 and 7 microphones."""
    rng = np.random.default_rng(0)
    errors = Errors()
    hops = round(WINDOW_S * FRAME.rate_hz / FRAME.hop)
    for preset in ARRAYS.values():
        geometry = _geometry(preset)
        locator = Locator(geometry, space=False, talkers=1)
        noise = rng.standard_normal((geometry.microphones, hops * FRAME.hop)).astype(np.float32)
        window = Analysis(geometry.microphones)(noise)
        for _ in range(windows):
            _alone(errors, locator, window)
            for peer in PEERS:
                _peer(errors, peer, peer, geometry, window, 0.0)
    spent = {way: 1e3 * errors.spent[way] / len(errors.errors[way]) for way in (ALONE, *PEERS)}
    rows = [(way, f"{ms:.2f}", f"{ms / spent[ALONE]:.0f}") for way, ms in spent.items()]
    report.table("Processor time of one estimate from one second", ("way", "ms", "times cosyd's"), rows)
    for name, peers, note in (
        ("speed_against_fastest_peer", PEERS, "one estimate from one second"),
        ("speed_against_peer_srp", ("SRP",), "the same method"),
    ):
        times = min(spent[peer] for peer in peers) / spent[ALONE]
        report.add(name, times, "times", target=10, at_least=True, note=note)


def _short(clip: Clip) -> Clip:
    return replace(clip, audio=clip.audio[: round(LONGEST_S * FRAME.rate_hz)])


def _geometry(preset: str) -> Geometry:
    return Geometry.of(_config(preset))


def _config(preset: str) -> ArrayConfig:
    return ArrayConfig(geometry=preset)  # type: ignore[arg-type]


def _cases() -> Iterator[_Case]:
    for array, preset in ARRAYS.items():
        for rt60_s in ROOMS_S:
            for db in HUM_DB:
                yield _Case(f"{array}, {rt60_s:g} s, {db} dB all around", preset, _in_hum(preset, rt60_s, db))
    for db in NOISE_DB:
        yield _Case(f"{next(iter(ARRAYS))}, 0.3 s, {db} dB from one place", "square-4", _beside_noise(db))


def _in_hum(preset: str, rt60_s: float, db: int) -> Callable[[int, Clip], tuple[Scene, float]]:
    geometry = _geometry(preset)

    def make(turn: int, clip: Clip) -> tuple[Scene, float]:
        azimuth = PLACES_DEG[turn % len(PLACES_DEG)]
        return spoken(geometry, Room(rt60_s=rt60_s), clip, azimuth, db, turn), azimuth

    return make


def _beside_noise(db: int) -> Callable[[int, Clip], tuple[Scene, float]]:
    geometry = _geometry("square-4")
    noises = [speech.noise(name) for name in array_scenes.NOISES]

    def make(turn: int, clip: Clip) -> tuple[Scene, float]:
        scene = disturbed(geometry, Room(rt60_s=0.3), clip, noises[turn % len(noises)], db, turn)
        return scene, scene.truth[0].azimuths[0]

    return make


def _case(front_end: FrontEnd, case: _Case, clips: Sequence[Clip]) -> Errors:
    errors = Errors()
    geometry = _geometry(case.preset)
    for turn, clip in enumerate(clips):
        scene, truth = case.make(turn, clip)
        heard = hear(front_end, scene.frames, _config(case.preset))
        _in_stream(errors, heard, truth)
        frames = scene.frames[: len(scene.frames) // FRAME.block * FRAME.block, list(geometry.channels)]
        spectra = Analysis(geometry.microphones)(np.ascontiguousarray(frames.T))
        for window in _windows(spectra, heard):
            for peer in PEERS:
                _peer(errors, peer, _of_window(peer), geometry, window, truth)
        whole = _utterance(spectra, heard)
        for peer in PEERS:
            _peer(errors, peer, peer, geometry, whole, truth)
    return errors


def _of_window(peer: str) -> str:
    return f"{peer}, windows"


def _in_stream(errors: Errors, heard: Heard, truth: float) -> None:
    """Whoever speaks in each block with speech, and what a final of all of it would carry."""
    record = VoiceRecord(doa_ms=100, rate_hz=FRAME.rate_hz)
    for sample, prob, voices in zip(heard.samples, heard.prob, heard.voices, strict=True):
        record.note(int(sample), voices)
        voice = best(voices)
        if prob >= SPOKEN and voice is not None:
            errors.add(STREAM, voice.azimuth_deg, truth)
    final = record.between(0, int(heard.samples[-1]) + FRAME.block)
    errors.add(FINAL, final.azimuth_deg if final else truth + 180, truth)


def _windows(spectra: Window, heard: Heard) -> Iterator[Window]:
    """Seconds with speech in more than half of their blocks."""
    hops = round(WINDOW_S * FRAME.rate_hz / FRAME.hop)
    for first in range(0, len(spectra) - hops + 1, hops):
        start = first * FRAME.hop
        inside = (heard.samples >= start) & (heard.samples < start + hops * FRAME.hop)
        if inside.any() and (heard.prob[inside] >= SPOKEN).mean() > 0.5:
            yield spectra[first : first + hops]


def _utterance(spectra: Window, heard: Heard) -> Window:
    """All blocks with speech, which the stream goes by, too."""
    spoken_at = heard.samples[heard.prob >= SPOKEN] // FRAME.hop
    hops = (spoken_at[:, None] + np.arange(FRAME.block_hops)).ravel()
    return np.asarray(spectra[hops[(hops >= 0) & (hops < len(spectra))]])


def _alone(errors: Errors, locator: Locator, window: Window) -> None:
    begin = time.process_time()
    peaks = locator.peaks(locator.average(window))
    spent = time.process_time() - begin
    errors.add(ALONE, angles(peaks[0].direction)[0] if peaks else 180.0, 0.0, spent)


def _peer(errors: Errors, name: str, way: str, geometry: Geometry, window: Window, truth: float) -> None:
    import pyroomacoustics

    if not hasattr(np, "in1d"):  # pyroomacoustics 0.10.1 still asks for it; numpy 2.4 has only the newer name
        np.in1d = np.isin  # type: ignore[attr-defined]
    if not len(window):  # the VAD heard nobody, so there is nothing to go by, as for the stream
        errors.add(way, truth + 180, truth)
        return
    kind = pyroomacoustics.doa.algorithms[name]
    finder = kind(geometry.centred[:, :2].T, FRAME.rate_hz, SIZE, num_src=1, n_grid=360)
    x = np.ascontiguousarray(window.transpose(1, 2, 0), np.complex128)
    begin = time.process_time()
    finder.locate_sources(x, freq_range=list(BAND_HZ))
    spent = time.process_time() - begin
    azimuths = np.degrees(finder.azimuth_recon)
    errors.add(way, float(azimuths[0]) if len(azimuths) else truth + 180, truth, spent)


def _goals(report: Report, rows: dict[str, Errors]) -> None:
    for array in ARRAYS:
        name = f"{array}, 0.3 s, 10 dB all around"
        key = array.split()[0]
        report.add(f"azimuth_error_{key}", rows[name].median(STREAM), "degrees", target=3, note=name)
        report.add(f"azimuth_gross_{key}", rows[name].gross(STREAM), "%", target=5, note=name)


def _against_best(report: Report, total: Errors) -> None:
    """All rows together: what finals carry against the best peer on the same blocks."""
    for name, unit, of in (
        ("azimuth_error_final", "degrees", total.median),
        ("azimuth_gross_final", "%", total.gross),
    ):
        peer = min(PEERS, key=of)
        report.add(name, of(FINAL), unit, target=of(peer), note=f"all rows; target: best peer, {peer}")
