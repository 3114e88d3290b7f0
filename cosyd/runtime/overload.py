"""When recognition falls behind a live source, and when it has caught up: told once each."""

from __future__ import annotations

from cosyd.types import Health

BEHIND_S = 3.0  # unread audio of a live source that is told of; a final of a long utterance holds up for 1 s
WORSE_S = 1.0  # ... if it has grown by so much: who catches up after a restart is no overload
CAUGHT_UP_S = 0.5  # less than this is no delay any more


class Overload:
    """Of one source. Nothing is lost yet while this is told: the ring keeps ``buffer_s`` of audio."""

    def __init__(self) -> None:
        self._told = False
        self._least_s = float("inf")  # since the beginning

    def check(self, behind_s: float) -> Health | None:
        """``behind_s``: audio that is in the ring and not read. What is news, if anything is."""
        self._least_s = min(self._least_s, behind_s)
        if not self._told and behind_s >= max(BEHIND_S, self._least_s + WORSE_S):
            self._told = True
            text = f"recognition is {behind_s:.1f} s behind: fewer sources, a smaller model or more threads"
            return Health("overload", "warning", text, {"behind_s": round(behind_s, 1)})
        if self._told and behind_s <= CAUGHT_UP_S:
            self._told = False
            return Health("overload_over", "info", "recognition has caught up")
        return None
