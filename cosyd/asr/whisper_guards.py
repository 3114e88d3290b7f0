"""What Whisper says though nobody said it, and how it is told.

Trained on subtitles, it fills silence and noise with what subtitles have there: credits, sounds in brackets,
the same words again and again. The gate lets little through that is no speech; these are for the rest, beside
the doubt in all unsure results (``cosyd.asr.doubt``).
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.loops import cut_loop

SILENT = 1e-4  # peak, -80 dBFS: below the noise of any microphone; speech from afar peaks at -50
NO_SPEECH = 0.6  # probability of nobody speaking; with UNSURE, the model's authors' own rule
UNSURE = math.log(0.5)  # mean log probability of a token; theirs is 0.37, which is doubted anyway
SQUEEZED = 2.4  # times that deflate makes a text shorter: the authors' bound; sentences come to 1 to 2
_CHARACTERS = 40  # in shorter texts deflate finds too little to tell

_BRACKETED = re.compile(r"\[[^\]]*\]|\([^)]*\)|（[^）]*）|【[^】]*】|\*[^*]*\*|[♪♫]+[^♪♫]*[♪♫]+|[♪♫]")
# Credits that end a film, as letters alone; people do not say these to a machine.
_CREDITS = (
    "amaraorg",
    "字幕by",
    "字幕由",
    "请不吝点赞订阅转发",
    "請不吝點贊訂閱轉發",
    "ご視聴ありがとうございました",
    "thanksforwatching",
    "thankyouforwatching",
    "pleasesubscribetomychannel",
    "untertitelimauftragdeszdf",
    "untertitelderamara",
    "soustitresréalisés",
    "субтитрысделал",
    "редакторсубтитров",
)


def silent(audio: NDArray[np.float32]) -> bool:
    """Whether nothing in the audio [n], in ±1, is loud enough to be heard: the model need not be asked."""
    return audio.size == 0 or float(np.abs(audio).max()) < SILENT


def nobody_speaks(no_speech: float, score: float) -> bool:
    """``score``: mean log probability of the tokens."""
    return no_speech > NO_SPEECH and score < UNSURE


def spoken(text: str) -> str:
    """Without sounds in brackets; nothing if it is a credit of subtitles."""
    text = " ".join(_BRACKETED.sub(" ", text).split())
    letters = "".join(character for character in text.casefold() if character.isalnum())
    return "" if not letters or letters.startswith(_CREDITS) else text


def looped(tokens: Sequence[int], text: str) -> bool:
    """Whether it says the same over and over."""
    if cut_loop(list(tokens)):
        return True
    content = text.encode()
    return len(text) >= _CHARACTERS and len(content) / len(zlib.compress(content)) > SQUEEZED
