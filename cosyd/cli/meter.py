"""A level meter for the terminal, and what can be said of a channel from its levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from rich.text import Text

LOWEST_DB = -60.0  # the left end of a meter; quiet rooms are about -55
SILENT_DB = -90.0  # below one step of 16 bits: this channel carries nothing
LOUD_DB, TOO_LOUD_DB = -18.0, -6.0  # where the colour changes
HOLD_S = 1.5  # how long a peak stays
FALL_DB_PER_S = 20.0  # how fast it falls then, as on a mixing desk
_EIGHTHS = " ▏▎▍▌▋▊▉█"


@dataclass
class Meter:
    """One channel: its level, and the highest peak of late."""

    rms_db: float = LOWEST_DB
    held_db: float = LOWEST_DB
    highest_db: float = -200.0  # ever
    _held_at: float = field(default=0.0, repr=False)

    def accept(self, rms_db: float, peak_db: float, now: float) -> None:
        """``now``: seconds of any clock that goes forward."""
        self.rms_db = rms_db
        self.highest_db = max(self.highest_db, peak_db)
        fallen = self.held_db - max(0.0, now - self._held_at - HOLD_S) * FALL_DB_PER_S
        if peak_db >= fallen:
            self.held_db, self._held_at = peak_db, now
        elif now - self._held_at > HOLD_S:
            self.held_db, self._held_at = fallen, now - HOLD_S

    @property
    def silent(self) -> bool:
        """Whether nothing at all has come, not even noise."""
        return self.highest_db < SILENT_DB

    def draw(self, width: int) -> Text:
        """A bar with the held peak, and the level in figures."""
        text = bar(self.rms_db, self.held_db, width)
        text.append(f" {max(self.rms_db, -99.9):6.1f} dB", style="dim")
        return text


def bar(rms_db: float, held_db: float, width: int) -> Text:
    """``width`` columns: the level in eighths of a column, coloured by loudness, a mark at the peak."""
    filled = _share(rms_db) * width
    cells = [_EIGHTHS[round(8 * min(1.0, max(0.0, filled - column)))] for column in range(width)]
    mark = min(width - 1, int(_share(held_db) * width))
    if held_db > LOWEST_DB and cells[mark] == " ":
        cells[mark] = "▏"
    text = Text()
    for style, columns in groupby(range(width), lambda column: _style(column, width)):
        text.append("".join(cells[column] for column in columns), style=style)
    return text


def _share(db: float) -> float:
    return min(1.0, max(0.0, 1.0 - db / LOWEST_DB))


def _style(column: int, width: int) -> str:
    db = LOWEST_DB * (1.0 - (column + 0.5) / width)
    return "green" if db < LOUD_DB else "yellow" if db < TOO_LOUD_DB else "red"


@dataclass
class Meters:
    """All channels of a source."""

    channels: list[Meter] = field(default_factory=list)
    clipped_at: float = -1e9

    def accept(self, rms_db: Sequence[float], peak_db: Sequence[float], clipped: bool, now: float) -> None:
        if len(self.channels) != len(rms_db):
            self.channels = [Meter() for _ in rms_db]
        for meter, rms, peak in zip(self.channels, rms_db, peak_db, strict=True):
            meter.accept(rms, peak, now)
        if clipped:
            self.clipped_at = now

    def draw(self, width: int, now: float) -> list[Text]:
        """A line for each channel; what is wrong with it behind its meter."""
        many = len(self.channels) > 1
        lines = []
        for number, meter in enumerate(self.channels):
            line = Text(f"{number:>3} " if many else "", style="dim")
            line.append_text(meter.draw(width))
            if meter.silent:
                line.append("  silent", style="bold red")
            elif now - self.clipped_at < HOLD_S and meter.held_db > -0.1:
                line.append("  too loud", style="bold red")
            lines.append(line)
        return lines


def complaints(meters: Meters) -> list[str]:
    """``channel 0 silent`` for each channel that carries nothing."""
    return [f"channel {number} silent" for number, meter in enumerate(meters.channels) if meter.silent]
