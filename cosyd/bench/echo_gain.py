"""Whether the recogniser understands more at one level: speech from loud to quiet, as it is and levelled."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

import numpy as np

from cosyd.array.agc import GainControl
from cosyd.asr.recognizer import SegmentRequest
from cosyd.asr.recognizers import load_recognizer
from cosyd.bench.report import Report
from cosyd.bench.speech import EVAL_SETS, Audio, Clip, eval_clips, speech_power, train_clips
from cosyd.bench.text import normalise
from cosyd.config.schema import AsrConfig, FrontendConfig
from cosyd.models.configured import configured_store
from cosyd.spec import FRAME

LEVELS_DBFS = (-6, -20, -30, -40, -50)  # of frames with speech; at -6 its peaks are clipped
TRAIN = "kathleen"  # of the training sets the one whose text a person wrote
_FULL = 32_768.0


class Words:
    """The recogniser, asked for the word errors of whole clips."""

    def __enter__(self) -> Words:
        store = configured_store()
        self._recognizer = load_recognizer(AsrConfig(), store)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._recognizer.close()

    def wer(self, clips: Sequence[Clip], heard: Sequence[Audio]) -> float:
        """In %, over all words."""
        import jiwer

        texts = [
            self._recognizer.transcribe([SegmentRequest(np.ascontiguousarray(audio))])[0].text
            for audio in heard
        ]
        said = [normalise(clip.text) for clip in clips]
        share: float = jiwer.wer(said, [normalise(text) for text in texts])
        return 100 * share


def measure(report: Report, clips: int) -> None:
    """A table of both sides at every level, and what gain control wins on the whole."""
    sets = {
        f"train ({TRAIN})": list(train_clips(TRAIN, 2 * clips)),
        "evaluation": [clip for name in EVAL_SETS for clip in eval_clips(name, clips)],
    }
    rows: list[tuple[str, ...]] = []
    with Words() as words:
        for name, chosen in sets.items():
            found = [_both(words, chosen, level) for level in LEVELS_DBFS]
            for title, which in (("as it is", 0), ("frontend.agc", 1)):
                values = [pair[which] for pair in found]
                rows.append((name, title, *(f"{v:.1f}" for v in values), f"{np.mean(values):.1f}"))
            gain = float(np.mean([plain - levelled for plain, levelled in found]))
            said = sum(len(normalise(clip.text).split()) for clip in chosen)
            note = f"{said} words a level"
            report.add(f"WER that gain control takes off, {name}", gain, "points", note=note)
    head = ("speech", "", *(f"{level} dBFS" for level in LEVELS_DBFS), "mean")
    report.table("WER by the level of speech, %", head, rows)


def _both(words: Words, clips: Sequence[Clip], level_dbfs: float) -> tuple[float, float]:
    """WER of clips that a device gives at this level: as they are, and levelled."""
    given = [_captured(clip.audio, level_dbfs) for clip in clips]
    return words.wer(clips, given), words.wer(clips, [_levelled(audio) for audio in given])


def _captured(audio: Audio, level_dbfs: float) -> Audio:
    """At this level, in 16 bits, clipped where it does not fit."""
    gain = 10 ** (level_dbfs / 20) / np.sqrt(speech_power(audio))
    return np.asarray(np.clip(np.round(audio * gain * _FULL), -_FULL, _FULL - 1) / _FULL, np.float32)


def _levelled(audio: Audio) -> Audio:
    """Through the gain control of a stream that has just begun."""
    config = FrontendConfig()
    gain = GainControl(config.agc_level_db, config.agc_most_db)
    padded = np.pad(audio, (0, -len(audio) % FRAME.block)).reshape(-1, FRAME.block)
    return np.concatenate([gain.process(block, 1.0) for block in padded])
