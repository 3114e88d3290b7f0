"""A second look at what the recogniser is unsure of.

What an encoder-decoder makes of unclear speech depends on where its audio begins: moving the beginning by
a tenth of a second changes a word in ten of noisy speech, for the better as often as for the worse. How sure
it is tells the better from the worse. So a final that is in doubt is decoded once more with a longer
beginning, and the surer of the two results counts. Clear speech is not decoded twice.

Measured with Moonshine tiny: on 40 clips of LibriSpeech train-clean-100 in kitchen noise at 5 dB (1,036
words) 24.3 % word errors once, 23.4 % with this; with a beginning cut short by as much 24.6 %, with one of
digital silence 23.9 %. Without noise, on 60 clips through the whole pipeline, 10.05 % once, 9.56 % with this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from cosyd.asr.recognizer import SegmentRequest
from cosyd.asr.words import placed
from cosyd.errors import InferenceError
from cosyd.spec import FRAME
from cosyd.types import Transcript

Transcribe = Callable[[Sequence[SegmentRequest]], list[Transcript]]

LEAD_MS = 140  # no multiple of the model's hop (24 ms) nor of a front-end block (32 ms)
_LEAD = FRAME.rate_hz * LEAD_MS // 1000


def reconsidered(
    first: Transcript, request: SegmentRequest, transcribe: Transcribe, *, unsure: float, limit_s: float
) -> Transcript:
    """``first``, or what a second decode of ``request`` gives, if that one is surer of itself.

    Only a confidence below ``unsure`` is questioned. A second decode that fails, or would be longer than
    ``limit_s``, is done without.
    """
    longer = request.audio.size + _LEAD
    if first.conf is None or first.conf >= unsure or longer > limit_s * FRAME.rate_hz:
        return first
    try:
        second = transcribe([_reframed(request, first)])[0]
    except InferenceError:
        return first
    if second.conf is None or second.conf <= first.conf:
        return first
    return second if request.context_samples else placed(second, -LEAD_MS / 1000)


def _reframed(request: SegmentRequest, first: Transcript) -> SegmentRequest:
    """The same audio after a mirror image of its beginning, which sounds like what was before it.

    The first result is the draft: where both agree nothing is decoded word by word.
    """
    audio = np.concatenate((request.audio[:_LEAD][::-1], request.audio))
    context = request.context_samples + min(_LEAD, request.audio.size) if request.context_samples else 0
    return replace(request, audio=audio, draft=first.tokens, context_samples=context)
