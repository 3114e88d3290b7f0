"""``cosyd bench partials``: how soon spoken words are on the screen, and how many of them stay there."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cosyd.asr.decode import Decode
from cosyd.asr.listener import Listener
from cosyd.asr.listening import Action
from cosyd.asr.recognizer import SegmentRecognizer, SegmentRequest
from cosyd.asr.recognizers import load_recognizer
from cosyd.bench.partials_peer import moonshine_lines, timed
from cosyd.bench.report import Report, percentiles
from cosyd.bench.shown import Shown
from cosyd.bench.speech import EVAL_SETS, Audio, Clip, eval_clips
from cosyd.bench.text import edit_distance, normalise
from cosyd.bench.virtual import VirtualQueue
from cosyd.config.schema import AsrConfig, EndpointConfig, VadConfig
from cosyd.frontend.silero import SileroVad
from cosyd.models.configured import configured_store
from cosyd.spec import FRAME
from cosyd.types import Final, Partial, RecognitionEvent, Word

PAUSE_S = 1.5  # between clips: longer than the longest patience of the endpoint
QUICK_CLIPS = 8
OURS, PEER = "cosyd", "moonshine-voice"
PEER_STRIDE = {"librispeech-other": 4, "coffee-commands": 8}  # it needs more time than the speech takes
SOON_MS = 500.0
FLICKER_PERCENT = 5.0
METHOD = (
    "The clips of a set, with 1.5 s of silence between them, through Silero, listener and the order of the "
    "decode queue, without ring, denoiser and sockets, on a clock of processor time: a result comes so much "
    "after its decode began as the processor worked for it on one thread, while the audio goes on (two "
    "cores, nothing else running). *Delay* of a word: from its end, by the word times of the final, to the "
    "text on the screen that has it and keeps it; of words that only the final had, until that. *Flicker*: "
    "words that were taken back or changed, of all that were shown; case and marks do not count. *Whole*: "
    "the audio of each final decoded once more as one piece, without any partial or promise before; "
    "word errors are of both against the transcripts. *Load*: processor time of all decodes per time in "
    "which someone speaks or an utterance waits for its end. *moonshine-voice*: the same recording on the "
    "same clock, its stream asked for an update as often; the ends of its words are those of the same words "
    "in cosyd's finals, words that these do not have are left out. It hears some of the clips only."
)


@dataclass
class Watched:
    """What came of a set."""

    delays_s: list[float] = field(default_factory=list)
    shown: int = 0
    gone: int = 0
    texts: list[str] = field(default_factory=list)  # of finals, by clip
    whole: list[str] = field(default_factory=list)  # of whole decodes, by clip
    words: list[Word] = field(default_factory=list)  # of finals, with their times in the recording
    open_s: float = 0.0
    busy_s: float = 0.0
    lags_s: list[float] = field(default_factory=list)  # from the last sound of a partial to the partial
    firsts_s: list[float] = field(default_factory=list)  # from the first sound to the first partial

    def watched(self, shown: Shown) -> None:
        """An utterance that has ended, its final with it."""
        words, gone = shown.changes()
        self.shown, self.gone = self.shown + words, self.gone + gone
        self.delays_s += shown.delays()

    @property
    def delay_ms(self) -> dict[int, float]:
        """The 50th and the 90th percentile."""
        return {p: 1e3 * s for p, s in percentiles(self.delays_s, (50, 90)).items()}

    @property
    def flicker(self) -> float:
        """Percent of the words shown."""
        return 100 * self.gone / max(1, self.shown)


def run(quick: bool) -> dict[str, Any]:
    """Measure and report. Raises CosydError without recordings or models."""
    report = Report("partials", "Partial results", METHOD, quick)
    store = configured_store()
    recognizer = load_recognizer(AsrConfig(), store)
    vad = SileroVad(store.require("silero-vad-6") / "silero_vad_16k_op15.onnx", 1)
    rows = []
    for name in EVAL_SETS:
        sys.stderr.write(f"partials: {name}\n")
        clips = list(eval_clips(name, QUICK_CLIPS if quick else None))
        watched = watch(clips, recognizer, vad)
        _tell(report, name, clips, watched)
        rows.append(_row(name, OURS, watched))
        some = clips[:: PEER_STRIDE[name]]
        watched = watch(some, recognizer, vad)
        rows.append(_row(f"{name}, {len(some)} clips", OURS, watched))
        rows.append(_peer(f"{name}, {len(some)} clips", some, watched))
    head = (
        "set",
        "recogniser",
        "words",
        "flicker",
        "shown P50",
        "P90",
        "first partial P50",
        "partial's lag P50",
        "load",
    )
    report.table("Times", head, rows)
    return report.as_dict()


def recording(clips: Sequence[Clip]) -> Audio:
    """All clips one after the other, with a pause around each."""
    pause = np.zeros(int(PAUSE_S * FRAME.rate_hz), np.float32)
    return np.concatenate([pause, *(part for clip in clips for part in (clip.audio, pause))])


def watch(clips: Sequence[Clip], recognizer: SegmentRecognizer, vad: SileroVad) -> Watched:
    """All clips one after the other, as one recording of one source."""
    return _Watch(clips, recognizer, vad).run()


class _Watch:
    def __init__(self, clips: Sequence[Clip], recognizer: SegmentRecognizer, vad: SileroVad) -> None:
        self._recognizer = recognizer
        self._vad = vad
        self._clips = clips
        self._audio = recording(clips)
        pause = int(PAUSE_S * FRAME.rate_hz)
        lengths = [clip.audio.size + pause for clip in clips]
        self._edges = np.cumsum(lengths) + pause // 2  # where one clip's stretch ends in the recording
        self._listener = Listener(VadConfig(), EndpointConfig(), AsrConfig(), FRAME.rate_hz, source="bench")
        self._queue = VirtualQueue(recognizer)
        self._open: dict[int, Shown] = {}
        self._heard: dict[
            int, tuple[int, int]
        ] = {}  # first and last sample of what an utterance's finals hear
        self._found = Watched(texts=[""] * len(clips), whole=[""] * len(clips))

    def run(self) -> Watched:
        slot = np.zeros(1, np.intp)
        self._vad.reset(slot)
        for first in range(0, self._audio.size - FRAME.block + 1, FRAME.block):
            now = (first + FRAME.block) / FRAME.rate_hz
            self._results(now)
            block = self._audio[first : first + FRAME.block]
            prob = float(self._vad.process(slot, block[None])[0])
            self._act(self._listener.accept(first, block, prob), now)
        self._act(self._listener.finish("end_of_stream"), now)
        self._results(float("inf"))
        self._found.busy_s = self._queue.busy_s
        return self._found

    def _results(self, until: float) -> None:
        for came in self._queue.until(until):
            if came.transcript is not None:
                self._events(self._listener.decoded(came.decode, came.transcript), came.when)

    def _act(self, actions: Iterable[Action], now: float) -> None:
        for action in actions:
            if isinstance(action, Decode):
                first, last = self._heard.get(action.utt, (action.start_sample, 0))
                if action.kind != "partial":
                    last = action.end_sample
                self._heard[action.utt] = min(first, action.start_sample), last
                self._queue.submit(action, now)
            else:
                self._events([action], now)

    def _events(self, events: Iterable[RecognitionEvent], now: float) -> None:
        for event in events:
            if isinstance(event, Partial):
                shown = self._open.setdefault(event.utt, Shown())
                if not shown.texts:
                    self._found.firsts_s.append(now - event.start_sample / FRAME.rate_hz)
                shown.add(now, event.text)
                self._found.lags_s.append(now - event.end_sample / FRAME.rate_hz)
            elif isinstance(event, Final):
                self._final(event, now)

    def _final(self, event: Final, now: float) -> None:
        found = self._found
        shown = self._open.pop(event.utt, Shown())
        shown.add(now, event.text)
        shown.words = event.words
        found.watched(shown)
        found.words += event.words
        found.open_s += (event.decided_sample - event.start_sample) / FRAME.rate_hz
        clip = min(int(np.searchsorted(self._edges, event.start_sample)), len(self._clips) - 1)
        first, last = self._heard.pop(event.utt, (0, 0))
        whole = self._recognizer.transcribe([SegmentRequest(self._audio[first:last])])[0].text if last else ""
        found.texts[clip] = f"{found.texts[clip]} {event.text}"
        found.whole[clip] = f"{found.whole[clip]} {whole}"


def errors(reference: str, text: str) -> int:
    """Words wrong, missing or too many."""
    return edit_distance(normalise(reference).split(), normalise(text).split())


def _tell(report: Report, name: str, clips: Sequence[Clip], watched: Watched) -> None:
    words = sum(len(normalise(clip.text).split()) for clip in clips)
    ours = [errors(clip.text, text) for clip, text in zip(clips, watched.texts, strict=True)]
    whole = [errors(clip.text, text) for clip, text in zip(clips, watched.whole, strict=True)]
    worse = sum(a > b for a, b in zip(ours, whole, strict=True))
    better = sum(a < b for a, b in zip(ours, whole, strict=True))
    count = f"{len(watched.delays_s)} words"
    report.add(
        f"{name}: a word is shown after its end, P50", watched.delay_ms[50], "ms", target=SOON_MS, note=count
    )
    note = f"{watched.gone} of {watched.shown} words"
    report.add(f"{name}: flicker", watched.flicker, "%", target=FLICKER_PERCENT, note=note)
    note = f"{100 * sum(ours) / words:.2f} % against {100 * sum(whole) / words:.2f} %; of {len(clips)} clips "
    note += f"{worse} worse, {better} better"
    above = 100 * (sum(ours) - sum(whole)) / words
    report.add(f"{name}: word errors of finals above whole decodes", above, "points", target=0.0, note=note)


def _row(name: str, who: str, watched: Watched) -> tuple[str, ...]:
    seconds = (watched.firsts_s, watched.lags_s)
    medians = (1e3 * percentiles(values, (50,))[50] if values else None for values in seconds)
    times = (watched.delay_ms[50], watched.delay_ms[90], *medians)
    cells = ("" if ms is None else f"{ms:.0f} ms" for ms in times)
    load = watched.busy_s / max(1e-9, watched.open_s)
    return (name, who, str(len(watched.delays_s)), f"{watched.flicker:.1f} %", *cells, f"{load:.0%}")


def _peer(name: str, clips: Sequence[Clip], watched: Watched) -> tuple[str, ...]:
    """The row of Moonshine's own library on the same recording, asked as often."""
    found = moonshine_lines(recording(clips), AsrConfig().partial_ms / 1000)
    if isinstance(found, str):
        return (name, PEER, f"not run: {found}", *[""] * 6)
    busy_s, lines = found
    peer = Watched(busy_s=busy_s, open_s=watched.open_s)
    for line in lines:
        peer.watched(timed(line, watched.words).shown)
        peer.firsts_s.append(line.shown.texts[0][0] - line.begin)
    return _row(name, PEER, peer)
