"""When speech began and ended, as it is told to others: in turns, and never back in time."""

from __future__ import annotations

from cosyd.types import SpeechEnded, SpeechStarted


class SpeechEvents:
    """Makes the SpeechStarted and SpeechEnded of one source; each call returns the event, if it is news.

    ``started``: SpeechStarted is out already, its SpeechEnded is not.
    """

    def __init__(self, started: bool = False) -> None:
        self._started = started
        self._newest = 0  # sample of the newest event

    def start(self, sample: int, utt: int) -> list[SpeechStarted]:
        if self._started:
            return []
        self._started = True
        return [SpeechStarted(self._not_before_newest(sample), utt)]

    def end(self, sample: int, utt: int) -> list[SpeechEnded]:
        if not self._started:
            return []
        self._started = False
        return [SpeechEnded(self._not_before_newest(sample), utt)]

    def _not_before_newest(self, sample: int) -> int:
        """A split may lie before what was told last."""
        self._newest = max(self._newest, sample)
        return self._newest
