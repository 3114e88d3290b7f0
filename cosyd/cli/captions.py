"""What `listen` shows: one view per source, fed by messages, drawn for the terminal. No sockets here."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import quantiles

from rich.console import Group
from rich.text import Text

from cosyd.cli.common import printable
from cosyd.cli.ctl import duration
from cosyd.cli.describe import clock
from cosyd.cli.meter import Meter
from cosyd.client import DAEMON, AnyMessage, AsrFinal, AsrPartial, Device, Health, Level, State, Vad

METER_COLUMNS = 32
LINGER_S = 2.0  # of words after speech; the final is due a second after it with the usual settings
NOTEWORTHY = ("warning", "error")
_STATES = {
    "opening": "opening the device …",
    "listening": "listening",
    "muted": "muted",
    "lost": "the device is away",
    "restarting": "restarting",
    "failed": "failed",
    "ended": "ended",
    "stopped": "stopped",
}


@dataclass
class View:
    """One source as it is now. The meter shows the loudest channel."""

    source: str
    state: str = "opening"
    reason: str = ""
    about: str = ""
    meter: Meter = field(default_factory=Meter)
    speaking: bool = False
    vad_prob: float = 0.0
    utt: int = 0  # of the words
    stable: str = ""
    rest: str = ""
    quiet_since: float | None = None

    def vad(self, message: Vad, now: float) -> None:
        self.vad_prob = message.prob
        self.hear(message.event == "start", now)
        if self.speaking and message.utt != self.utt:
            self.clear()

    def hear(self, speaking: bool, now: float) -> None:
        if not speaking and self.speaking:
            self.quiet_since = now
        elif speaking:
            self.quiet_since = None
        self.speaking = speaking

    def clear_stale(self, now: float) -> None:
        """An utterance in which nothing was certain at last ends without a final; its words go, too."""
        if self.quiet_since is not None and now - self.quiet_since >= LINGER_S:
            self.clear()

    def clear(self) -> None:
        self.stable = self.rest = ""

    def draw(self) -> Group:
        """The meter with the speech indicator, and below it the words as they come."""
        lamp = ("● ", "bold green") if self.speaking else ("○ ", "dim")
        head = Text.assemble(lamp, (f"{self.source}  ", "bold"))
        if self.state == "listening":
            head.append_text(self.meter.draw(METER_COLUMNS))
            head.append(f"  speech {self.vad_prob:4.2f}", style="green" if self.speaking else "dim")
        else:
            head.append(_STATES.get(self.state, self.state), style="yellow")
            head.append(f"  {printable(self.reason)}" if self.reason else "", style="dim")
        words = Text.assemble("  ", (printable(self.stable), "bold"), (printable(self.rest), "dim italic"))
        return Group(head, words)


@dataclass
class Captions:
    """Everything heard so far. ``accept`` returns the lines that stay on the screen."""

    views: dict[str, View] = field(default_factory=dict)
    utterances: int = 0
    words: int = 0
    heard_s: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)  # one a final: a day of talk is some thousand

    def accept(self, message: AnyMessage, now: float) -> list[Text]:
        view = self.views.setdefault(message.source, View(message.source))
        view.clear_stale(now)
        if isinstance(message, AsrFinal):
            return [self._final(view, message)]
        if isinstance(message, State):
            return self._state(view, message, now)
        if isinstance(message, AsrPartial):
            view.utt = message.utt
            view.stable, view.rest = message.stable, message.text[len(message.stable) :]
        elif isinstance(message, Level):
            view.meter.accept(max(message.rms_db), max(message.peak_db), now)
            view.vad_prob = message.vad_prob
        elif isinstance(message, Vad):
            view.vad(message, now)
        elif isinstance(message, Device | Health):
            return _incident(message)
        return []

    def _final(self, view: View, final: AsrFinal) -> Text:
        view.clear()
        self.utterances += 1
        self.words += len(final.text.split())
        self.heard_s = max(self.heard_s, final.end)
        self.latencies_ms.append(final.latency_ms)
        return Text.assemble(
            (f"{clock(final.t_wall)[:8]}  ", "cyan"),
            (f"{view.source}  " if len(self.views) > 1 else "", "bold"),
            printable(final.shown),
            (f"  {final.latency_ms:.0f} ms", "dim"),
        )

    def _state(self, view: View, state: State, now: float) -> list[Text]:
        view.hear(view.speaking and state.status == "listening", now)
        if state.rate_hz:
            self.heard_s = max(self.heard_s, state.sample / state.rate_hz)
        changed = state.status != view.state
        view.state, view.reason = state.status, state.reason
        if not changed or state.status in ("opening", "stopped"):
            return []
        about = f": {state.device}, {state.rate_hz} Hz, {state.channels} ch" if state.device else ""
        reason = f": {state.reason}" if state.reason else about
        said = _STATES.get(state.status, state.status)
        return [Text(printable(f"{clock(state.t_wall)[:8]}  {state.source} {said}{reason}"), style="dim")]

    def draw(self) -> Group:
        """The part of the screen that changes. The daemon's own messages have no view."""
        views = [view.draw() for view in self.views.values() if view.source != DAEMON]
        return Group(*views) if views else Group(Text("loading the models …", style="dim"))

    def summary(self) -> str:
        """``12 utterances, 140 words in 1:32; latency P50 84 ms, P95 122 ms``"""
        counts = f"{_count(self.utterances, 'utterance')}, {_count(self.words, 'word')}"
        text = f"{counts} in {duration(self.heard_s)}"
        if len(self.latencies_ms) < 2:
            return text
        cuts = quantiles(self.latencies_ms, n=20, method="inclusive")
        return f"{text}; latency P50 {cuts[9]:.0f} ms, P95 {cuts[18]:.0f} ms"


def _incident(message: Device | Health) -> list[Text]:
    """Trouble is told; that a device was opened or ended its state tells already."""
    if isinstance(message, Health):
        told = message.message if message.severity in NOTEWORTHY else ""
    else:
        told = f"{message.event} of {message.frames} frames" if message.event in ("gap", "overrun") else ""
    line = f"{clock(message.t_wall)[:8]}  {message.source} {told}"
    return [Text(printable(line), style="yellow")] if told else []


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
