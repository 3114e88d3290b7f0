"""What is done to the recogniser's input of one source, and what is kept of it."""

from __future__ import annotations

from pathlib import Path

from cosyd.array.agc import GainControl
from cosyd.config.schema import FrontendConfig
from cosyd.frontend.stage import Samples
from cosyd.runtime.debug_tap import DebugTap


class AsrInput:
    """Gain where it is configured, and the last seconds for a dump. ``tap_s`` 0 keeps nothing."""

    def __init__(self, ring_path: Path, rate_hz: int, tap_s: float) -> None:
        self._tap = DebugTap(ring_path, rate_hz, tap_s)
        self._gain: GainControl | None = None

    def configure(self, frontend: FrontendConfig) -> None:
        """Also anew, when the configuration changes: gain that stays as it is goes on."""
        wanted = (frontend.agc_level_db, frontend.agc_most_db) if frontend.agc else None
        if wanted != (self._gain.settings if self._gain else None):
            self._gain = GainControl(*wanted) if wanted else None

    def process(self, sample: int, audio: Samples, speech: float) -> Samples:
        """A block [n] of the front end, the source clock of its beginning, and that there is speech in it."""
        if self._gain is not None:
            audio = self._gain.process(audio, speech)
        self._tap.write(sample, audio, speech)
        return audio

    def keep(self) -> None:
        """Put what was processed so far where a dump finds it."""
        self._tap.flush()

    def close(self) -> None:
        """May be called again."""
        self._tap.close()
