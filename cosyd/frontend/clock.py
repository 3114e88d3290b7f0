"""Where the frames of a stream lie in the clock of its source."""

from __future__ import annotations


class FrameClock:
    """Follows frames that come one after the other. ``received``: how many since the restart."""

    def __init__(self) -> None:
        self.restart(None)

    def restart(self, sample: int | None) -> None:
        """The next frame is at ``sample`` of the source clock (None: its push says)."""
        self._origin = sample
        self.received = 0

    @property
    def begun(self) -> bool:
        """Whether the first frame's place is known."""
        return self._origin is not None

    @property
    def origin(self) -> int:
        """Source clock of the first frame; 0 before it is known."""
        return self._origin or 0

    def advance(self, frames: int, sample: int) -> None:
        """So many frames have come, the first of them at ``sample``. Raises ValueError after a gap."""
        if self._origin is None:
            self._origin = sample
        expected = self._origin + self.received
        if sample != expected:
            raise ValueError(
                f"frames of sample {sample} pushed where {expected} was due; restart after a gap"
            )
        self.received += frames
