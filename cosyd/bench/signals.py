"""Which signal the VAD and which the recogniser should hear: word errors and frame errors in noise.

``python -m cosyd.bench.signals [CLIPS CLEAN_CLIPS]`` measures so many clips of each evaluation set, in noise
and clean, and writes docs/benchmarks/signals.json and .md; the defaults of ``frontend.vad_input``,
``asr_input`` and ``blend`` come from there.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from cosyd.asr.moonshine import Moonshine
from cosyd.asr.recognizer import SegmentRequest
from cosyd.bench import speech
from cosyd.bench.report import Report, save
from cosyd.bench.speech import Audio
from cosyd.bench.text import normalise
from cosyd.config.schema import VadConfig
from cosyd.frontend.factory import make_denoiser, make_vad
from cosyd.frontend.filters import DcRemoval
from cosyd.frontend.stage import Stage
from cosyd.models.configured import configured_store
from cosyd.spec import FRAME

SNRS_DB = (0, 5, 10, 20)
BLENDS = {"raw": 0.0, "blend 0.25": 0.25, "blend 0.5": 0.5, "blend 0.75": 0.75, "denoised": 1.0}
CLEAN = "clean"
METHOD = (
    "Each clip goes whole to the recogniser, without VAD or endpoint: through the constant-removing filter "
    "(raw), also through DTLN (denoised), or as a blend of the two with that share of denoised. WER over all "
    "words of the clips, both sides lower-cased, without punctuation, numbers spelled out. SNR is against "
    "the mean power of the frames in which someone speaks. VAD: blocks of 32 ms at the default threshold, "
    "compared with what the VAD says of the clean raw clip: missed is the share of its speech blocks not "
    "found, false the share of its other blocks called speech."
)


class Bench:
    """The stages and the recogniser, one stream of each."""

    def __init__(self) -> None:
        store = configured_store()
        self._denoise = make_denoiser(store, 1)
        self._vad = make_vad(store, 1)
        self._dc = DcRemoval(1)
        self._asr = Moonshine.load(store.require("moonshine-tiny-en"))

    def raw(self, audio: Audio) -> Audio:
        return _through(self._dc, audio)

    def denoised(self, raw: Audio) -> Audio:
        return _through(self._denoise, raw)

    def speech_blocks(self, audio: Audio) -> Any:
        """bool for each whole block: at or above the threshold."""
        blocks = audio[: len(audio) // FRAME.block * FRAME.block].reshape(-1, 1, FRAME.block)
        self._vad.reset(_SLOT)
        return np.array([self._vad.process(_SLOT, block)[0] for block in blocks]) >= VadConfig().threshold

    def text(self, audio: Audio) -> str:
        return normalise(self._asr.transcribe([SegmentRequest(audio)])[0].text)


_SLOT = np.zeros(1, np.intp)


def _through(stage: Stage, audio: Audio) -> Audio:
    """A whole clip through a filter stage, its delay taken out."""
    length = -(-(len(audio) + stage.delay) // FRAME.block) * FRAME.block
    padded = np.zeros(length, np.float32)
    padded[: len(audio)] = audio
    stage.reset(_SLOT)
    out = np.concatenate([stage.process(_SLOT, block[None])[0] for block in padded.reshape(-1, FRAME.block)])
    return out[stage.delay : stage.delay + len(audio)]


def conditions(clean: Audio, noises: dict[str, Audio], seed: int) -> Iterator[tuple[str, Audio]]:
    """The clip clean, then with each noise at each SNR."""
    yield CLEAN, clean
    for name, recording in noises.items():
        for snr_db in SNRS_DB:
            yield f"{name} {snr_db} dB", speech.mix(clean, recording, snr_db, seed)


class Tally:
    """Errors and words by (condition, signal), block errors by (condition, VAD signal)."""

    def __init__(self) -> None:
        self.words: Counter[tuple[str, str]] = Counter()
        self.errors: Counter[tuple[str, str]] = Counter()
        self.blocks: Counter[tuple[str, str, str]] = Counter()

    def add_text(self, condition: str, signal: str, reference: str, hypothesis: str) -> None:
        import jiwer

        found = jiwer.process_words(reference, hypothesis)
        self.errors[condition, signal] += found.substitutions + found.deletions + found.insertions
        self.words[condition, signal] += len(reference.split())

    def add_blocks(self, condition: str, signal: str, truth: Any, found: Any) -> None:
        self.blocks[condition, signal, "speech"] += int(truth.sum())
        self.blocks[condition, signal, "other"] += int((~truth).sum())
        self.blocks[condition, signal, "missed"] += int((truth & ~found).sum())
        self.blocks[condition, signal, "false"] += int((~truth & found).sum())

    def wer(self, names: list[str], signal: str) -> float:
        """In percent, over these conditions together."""
        errors = sum(self.errors[name, signal] for name in names)
        return 100 * errors / max(1, sum(self.words[name, signal] for name in names))

    def share(self, names: list[str], signal: str, what: str, of: str) -> float:
        total = sum(self.blocks[name, signal, of] for name in names)
        return 100 * sum(self.blocks[name, signal, what] for name in names) / max(1, total)


def measure(clips: int, clean_clips: int) -> Iterator[tuple[Tally, int]]:
    """Some clips of each set clean only, then ``clips`` of each under every condition.

    The tally is given after each clip, with the number of clips under every condition so far; the sets take
    turns. So a measurement that is cut short is one of fewer clips.
    """
    bench, tally = Bench(), Tally()
    noises = {name: speech.noise(name) for name in speech.NOISES}
    by_set = [list(speech.eval_clips(name, clips)) for name in speech.EVAL_SETS]
    in_noise = {(clip.set, clip.file) for clips_of_set in by_set for clip in clips_of_set}
    for name in speech.EVAL_SETS:
        for clip in speech.eval_clips(name, clean_clips):
            if (clip.set, clip.file) not in in_noise:
                _measure_clip(bench, tally, clip, {}, 0)
    yield tally, 0
    for number, clip in enumerate(clip for turn in zip(*by_set, strict=True) for clip in turn):
        _measure_clip(bench, tally, clip, noises, number)
        yield tally, number + 1


def _measure_clip(bench: Bench, tally: Tally, clip: speech.Clip, noises: dict[str, Audio], seed: int) -> None:
    reference = normalise(clip.text)
    truth = bench.speech_blocks(bench.raw(clip.audio))
    for condition, audio in conditions(clip.audio, noises, seed):
        raw = bench.raw(audio)
        denoised = bench.denoised(raw)
        for signal, share in BLENDS.items():
            heard = raw + np.float32(share) * (denoised - raw)
            tally.add_text(condition, signal, reference, bench.text(heard))
        for signal, heard in (("raw", raw), ("denoised", denoised)):
            tally.add_blocks(condition, signal, truth, bench.speech_blocks(heard))


def report(tally: Tally, clips: int) -> Report:
    """The tables and, as figures, the means that the defaults are chosen by."""
    every = [CLEAN, *(f"{name} {snr} dB" for name in speech.NOISES for snr in SNRS_DB)]
    groups = {CLEAN: [CLEAN]}
    groups |= {f"all noises, {snr} dB": [f"{n} {snr} dB" for n in speech.NOISES] for snr in SNRS_DB}
    groups["all noises, all SNRs"] = every[1:]
    page = Report(
        "signals", "Which signal the VAD and the recogniser hear", f"{METHOD} {_extent(tally, clips)}"
    )
    for signal in BLENDS:
        page.add(f"WER in noise, {signal}", tally.wer(every[1:], signal), "%")
    rows = groups | {name: [name] for name in every[1:]}
    page.table(
        "Word error rate, %",
        ("condition", *BLENDS),
        [(title, *(f"{tally.wer(names, signal):.1f}" for signal in BLENDS)) for title, names in rows.items()],
    )
    kinds = [
        (s, what, of) for s in ("raw", "denoised") for what, of in (("missed", "speech"), ("false", "other"))
    ]
    page.table(
        "VAD against the VAD on clean speech, % of blocks",
        ("condition", *(f"{signal}: {what}" for signal, what, _ in kinds)),
        [(title, *(f"{tally.share(names, *kind):.1f}" for kind in kinds)) for title, names in rows.items()],
    )
    return page


def _extent(tally: Tally, clips: int) -> str:
    clean, noisy = tally.words[CLEAN, "raw"], tally.words[f"kitchen {SNRS_DB[0]} dB", "raw"]
    return f"{clean:,} words clean; {clips} clips with {noisy:,} words under each noise at each SNR."


def run(quick: bool, clips: int = 10, clean_clips: int = 30) -> dict[str, Any]:
    """Measure; ``quick`` takes one clip a set, which shows that it works and no more."""
    result: dict[str, Any] = {}
    for tally, count in measure(1, 1) if quick else measure(clips, clean_clips):
        result = report(tally, count).as_dict() | {"quick": quick}
    return result


def main() -> None:
    """Save after each clip; what is measured when it is interrupted is kept."""
    clips, clean_clips = (int(argument) for argument in (sys.argv[1:] or ("10", "30")))
    for tally, count in measure(clips, clean_clips):
        save(report(tally, count).as_dict())
        sys.stderr.write(f"{count} clips, {tally.words[CLEAN, 'raw']} words clean\n")


if __name__ == "__main__":
    main()
