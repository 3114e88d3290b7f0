"""Words of recognised recordings, each with what is known of it and whether it is right.

``python -m cosyd.bench.confidence_fit`` fits what is shipped for Moonshine anew, on the training recordings
beside the repository, clean and in noise.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from cosyd.asr.calibrated import SHIPPED
from cosyd.asr.confidence import Calibration, evidence
from cosyd.asr.moonshine import Moonshine
from cosyd.asr.recognizer import SegmentRequest
from cosyd.asr.recognizers import FINALS_BEAM
from cosyd.bench.speech import Audio, Clip, mix, noise, train_clips
from cosyd.bench.text import normalise
from cosyd.config.paths import Paths
from cosyd.config.schema import AsrConfig, PathsConfig
from cosyd.models.store import ModelStore
from cosyd.spec import FRAME
from cosyd.types import Transcript, Word

TRAIN_SETS = {"librispeech-251-speakers": 50, "synthetic": 80, "kathleen": 50}  # clips of each, spread evenly
TRAIN_NOISE = "dishes"
SNR_DB = 5.0
LONGEST_S = 16.0

Recognise = Callable[[Audio], Transcript]


@dataclass
class Judged:
    """Of each word: confidence, ``evidence``, whether it is right."""

    confidences: list[float] = field(default_factory=list)
    evidence: list[tuple[float, ...]] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)

    def add(self, transcript: Transcript, reference: str) -> None:
        known = evidence(transcript)
        for i, right in judge_words(transcript.words, reference):
            self.confidences.append(transcript.words[i].conf or 0.0)
            self.evidence.append(known[i])
            self.right.append(right)

    def extend(self, other: Judged) -> None:
        self.confidences += other.confidences
        self.evidence += other.evidence
        self.right += other.right

    def fit(self) -> Calibration:
        return Calibration.fit(self.confidences, self.right, self.evidence)

    def told(self, calibration: Calibration) -> list[float]:
        """The confidences after calibration."""
        return [calibration(c, known) for c, known in zip(self.confidences, self.evidence, strict=True)]


def judge_words(words: Iterable[Word], reference: str) -> list[tuple[int, bool]]:
    """(position, whether it is right) of each word that has a confidence and is spoken.

    Right is what the alignment that needs the fewest edits leaves as it is.
    """
    from rapidfuzz.distance import Levenshtein

    spoken = [(word.conf, normalise(word.w).split()) for word in words]
    parts = [(part, i) for i, (_, said) in enumerate(spoken) for part in said]
    wrong: set[int] = set()
    for edit in Levenshtein.opcodes([part for part, _ in parts], normalise(reference).split()):
        if edit.tag in ("replace", "delete"):
            wrong |= {i for _, i in parts[edit.src_start : edit.src_end]}
    return [(i, i not in wrong) for i, (conf, said) in enumerate(spoken) if said and conf is not None]


def judge(recognise: Recognise, clips: Iterable[Clip], background: str | None) -> Judged:
    """All words of these clips, as they are or in a background at ``SNR_DB``."""
    disturbance = None if background is None else noise(background)
    judged = Judged()
    for seed, clip in enumerate(clips):
        if len(clip.audio) > LONGEST_S * FRAME.rate_hz:
            continue
        audio = clip.audio if disturbance is None else mix(clip.audio, disturbance, SNR_DB, seed)
        judged.add(recognise(audio), clip.text)
    return judged


def train_words(recognise: Recognise, share: float = 1.0) -> Judged:
    """Words of the training recordings, clean and in noise; ``share`` of the clips."""
    clips = [clip for name, count in TRAIN_SETS.items() for clip in train_clips(name, round(count * share))]
    judged = judge(recognise, clips, None)
    judged.extend(judge(recognise, clips, TRAIN_NOISE))
    return judged


def open_raw() -> Moonshine:
    """Moonshine as for finals, its confidences as the network gives them."""
    folder = ModelStore(Paths.resolve(PathsConfig()).models).require(AsrConfig().model)
    return Moonshine.load(folder, beam=FINALS_BEAM)


def by_segment(recognizer: Moonshine) -> Recognise:
    return lambda audio: recognizer.transcribe([SegmentRequest(audio, words=True)])[0]


def main() -> None:
    judged = train_words(by_segment(open_raw()))
    found = judged.fit()
    file = found.save(SHIPPED, f"{AsrConfig().model}.json")
    sys.stderr.write(f"{file}: {found}, of {len(judged.right)} words\n")


if __name__ == "__main__":
    main()
