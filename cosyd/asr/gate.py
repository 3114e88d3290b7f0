"""The gate: from a probability per block to "someone speaks", with hysteresis, in audio time only.

A block counts as speech when its probability reaches ``threshold``, and from then on while it stays at or
above ``release``. The gate opens after ``min_speech_ms`` of such blocks in a row and closes after
``min_silence_ms`` of others. Times are counted in blocks of ``FRAME.block`` samples, so they do not depend
on how fast the audio comes.
"""

from __future__ import annotations

from enum import Enum

from cosyd.config.schema import VadConfig
from cosyd.spec import FRAME

HYSTERESIS = 0.15  # Silero's own distance between the two thresholds
_LOWEST_RELEASE = 0.01  # a gate that never lets go is no gate


class GateChange(Enum):
    OPENED = "opened"
    CLOSED = "closed"


class Gate:
    """Fed one block after the other. Everything it says is about the blocks so far."""

    def __init__(self, config: VadConfig) -> None:
        self._high = False
        self._run = 0  # blocks of speech in a row
        self._quiet = 0  # blocks since the last one that counted as speech
        self._open = False
        self.configure(config)

    def configure(self, config: VadConfig) -> None:
        """Take new thresholds from the next block on."""
        release = config.threshold - HYSTERESIS if config.release is None else config.release
        self._threshold = config.threshold
        self._release = max(min(release, config.threshold), _LOWEST_RELEASE)
        self._min_speech = max(1, FRAME.blocks(config.min_speech_ms))
        self._min_silence = max(1, FRAME.blocks(config.min_silence_ms))

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def run(self) -> int:
        """Blocks of speech in a row up to now; 0 in silence."""
        return self._run

    @property
    def quiet(self) -> int:
        """Blocks since the last one that was speech while the gate was open."""
        return self._quiet

    @property
    def undecided(self) -> bool:
        """Speech may just have begun again: too short yet to open the gate, too loud to call it silence."""
        return self._run > 0 and not self._open

    def accept(self, prob: float) -> GateChange | None:
        self._high = prob >= (self._release if self._high else self._threshold)
        self._run = self._run + 1 if self._high else 0
        if self._open:
            return self._while_open()
        return self._while_closed()

    def _while_open(self) -> GateChange | None:
        self._quiet = 0 if self._high else self._quiet + 1
        if self._quiet < self._min_silence:
            return None
        self._open = False
        return GateChange.CLOSED

    def _while_closed(self) -> GateChange | None:
        self._quiet += 1
        if self._run < self._min_speech:
            return None
        self._open = True
        self._quiet = 0
        return GateChange.OPENED

    def reset(self) -> None:
        """Back to silence, as at the beginning."""
        self._high = self._open = False
        self._run = self._quiet = 0
