"""Words of the recordings beside the repository, recognised and judged.

``python -m cosyd.bench.confidence_fit`` fits what is shipped for Moonshine anew, on the training recordings
beside the repository, clean and in noise.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from cosyd.asr.calibrated import SHIPPED
from cosyd.asr.moonshine import Moonshine
from cosyd.asr.recognizer import SegmentRequest
from cosyd.asr.recognizers import FINALS_BEAM
from cosyd.bench.judged import Judged
from cosyd.bench.speech import Audio, Clip, mix, noise, train_clips
from cosyd.config.schema import AsrConfig
from cosyd.models.configured import configured_store
from cosyd.spec import FRAME
from cosyd.types import Transcript

TRAIN_SETS = {"librispeech-251-speakers": 50, "synthetic": 80, "kathleen": 50}  # clips of each, spread evenly
TRAIN_NOISE = "dishes"
SNR_DB = 5.0
LONGEST_S = 16.0

Recognise = Callable[[Audio], Transcript]


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
    folder = configured_store().require(AsrConfig().model)
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
