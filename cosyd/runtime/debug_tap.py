"""What the recogniser heard of late, in a ring beside the source's own, to find out what went wrong.

Two channels of float32 at 16 kHz: what the recogniser hears, and the probability of speech. Its index is the
source's clock at that rate, so that it lies beside the raw recording to the sample.
"""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np

from cosyd.errors import RingError
from cosyd.frontend.contract import STEP_BLOCKS
from cosyd.frontend.stage import Samples
from cosyd.ring import RingWriter
from cosyd.spec import FRAME, AudioSpec, SampleFormat

log = logging.getLogger("cosyd.runtime")

SPEC = AudioSpec(FRAME.rate_hz, 2, SampleFormat.F32)
_HELD = STEP_BLOCKS * FRAME.block  # samples held before they are written: as many as come together
_NEXT = 1  # samples by which a block's clock, rounded from the device's rate, may miss the one before


def tap_path(ring: Path) -> Path:
    """Where the tap of the source with this ring is."""
    return ring.with_name(f"{ring.stem}.asr{ring.suffix}")


class DebugTap:
    """Writes the ring; made with the first block. ``seconds`` 0 keeps nothing."""

    def __init__(self, ring: Path, rate_hz: int, seconds: float) -> None:
        self._path = tap_path(Path(ring))
        self._ratio = FRAME.rate_hz / rate_hz
        self._seconds = seconds
        self._writer: RingWriter | None = None
        self._next = 0  # index of the next sample
        self._held = np.empty((_HELD, SPEC.channels), np.float32)
        self._count = 0  # of those held

    def write(self, sample: int, audio: Samples, speech: float) -> None:
        """A block [n] whose first sample is at ``sample`` of the source clock.

        It is in the ring after ``flush``.
        """
        if not self._seconds:
            return
        index = round(sample * self._ratio)
        if self._writer is None and not self._open(index):
            return
        assert self._writer is not None
        missing = index - self._next
        if missing < -_NEXT:  # read again after a restart: the ring has it
            return
        if missing > _NEXT or self._count + len(audio) > _HELD:
            self.flush()
        if missing > _NEXT:
            self._writer.skip(missing)
            self._next += missing
        frames = self._held[self._count : self._count + len(audio)]
        frames[:, 0], frames[:, 1] = audio, speech
        self._count += len(audio)
        self._next += len(audio)

    def flush(self) -> None:
        """Write what is held."""
        if self._writer is not None and self._count:
            self._writer.write(self._held[: self._count])
        self._count = 0

    def _open(self, index: int) -> bool:
        try:
            self._writer = RingWriter.open(self._path, SPEC, self._seconds, start_index=index)
        except RingError as error:
            log.warning("what the recogniser hears is not kept for `cosyd ctl dump`: %s", error)
            self._seconds = 0
            return False
        self._next = self._writer.write_index  # not the index where a killed recogniser has left one
        return True

    def close(self) -> None:
        """Idempotent."""
        if self._writer is not None:
            self._writer.close(unlink=True)
            self._writer = None
