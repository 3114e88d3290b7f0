"""``python -m cosyd.demo``: the real daemon on a recording of people reading, and a subscriber that shows it.

The recording is played in real time through everything that a microphone goes through: capture process, ring,
front end, recogniser, ZeroMQ. With ``--source mic`` it is the default microphone, until Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from cosyd.bench import demo_scene
from cosyd.bench.daemon import Daemon
from cosyd.bench.report import percentiles
from cosyd.client import AsrFinal, AsrPartial, Client, Message, State
from cosyd.errors import CosydError
from cosyd.models.configured import configured_store
from cosyd.runtime.embedded import check_source

MODEL, RECORDING = "demo-speech", "two_cities.wav"
POLL_S = 0.5  # how often the daemon is looked after while nothing comes
DRAIN_S = 0.5  # what is published at shutdown arrives well within this
STUCK_S = 60  # a recording that has not moved for so long will not move any more


@dataclass
class Heard:
    """What has come so far."""

    finals: list[AsrFinal] = field(default_factory=list)
    partial_ms: list[float] = field(default_factory=list)
    final_ms: list[float] = field(default_factory=list)
    audio_s: float = 0.0

    @property
    def text(self) -> str:
        return " ".join(final.text for final in self.finals)


class Screen:
    """Partials rewrite one line, finals stay; without a terminal each is a line of its own."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, transient=True, refresh_per_second=20)

    @contextmanager
    def open(self) -> Iterator[None]:
        if not self._console.is_terminal:
            yield
            return
        with self._live:
            yield

    def note(self, text: str) -> None:
        self._console.print(Text(text, style="dim"))

    def partial(self, message: AsrPartial) -> None:
        stable = message.stable
        line = Text.assemble(
            ("            … ", "cyan"), (stable, "bold"), (message.text[len(stable) :], "italic")
        )
        if self._console.is_terminal:
            self._live.update(line)
        else:
            self._console.print(line)

    def final(self, message: AsrFinal) -> None:
        if self._console.is_terminal:
            self._live.update(Text(""))
        times = f"{message.start:5.1f}–{message.end:5.1f} s  "
        found = message.direction
        place = f"voice {found.track} at {found.azimuth_deg:4.0f}°  " if found else ""
        self._console.print(Text.assemble((times, "green"), (place, "magenta"), message.text))


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parse(argv)
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    try:
        return _run(arguments, console)
    except CosydError as error:
        Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(f"cosyd: {error}")
        return error.exit_code


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="cosyd.demo", description="Watch speech turn into text.")
    parser.add_argument("--source", choices=("file", "mic"), default="file", help="default: file")
    parser.add_argument("--scene", choices=("array",), help="array: two people around a microphone array")
    parser.add_argument("--recording", type=Path, help="play this file instead of the one that comes along")
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace, console: Console) -> int:
    screen = Screen(console)
    heard = Heard()
    with (
        _source(arguments, screen) as source,
        Daemon({"sources": [source], "publish": {"level_ms": 1_000}}) as daemon,
    ):
        screen.note(f"starting the daemon on {source.get('path', 'the default microphone')} …")
        topics = ("asr.", "state.", "level.")  # levels come also while nobody speaks
        with Client(daemon.events, daemon.control, topics, patience_s=5) as client, screen.open():
            cpu_s = _listen(client, daemon, screen, heard)
            daemon.stop()
            while (message := client.receive(DRAIN_S)) is not None:
                _take(message, screen, heard)
    console.print(_summary(heard, cpu_s))
    return 0 if heard.text else 1


@contextmanager
def _source(arguments: argparse.Namespace, screen: Screen) -> Iterator[dict[str, Any]]:
    """The source's section of the configuration; a scene is there as long as the context."""
    if arguments.source == "mic":
        yield {"name": "mic", "type": "portaudio"}
        return
    store = configured_store()
    if arguments.scene is None:
        path = arguments.recording or store.require(MODEL) / RECORDING
        yield _recording("speech", path)
        return
    with tempfile.TemporaryDirectory(prefix="cosyd-demo-") as folder:
        path = Path(folder) / "scene.wav"
        screen.note(demo_scene.write(store.require(MODEL), path))
        yield {**_recording("room", path), "array": {"geometry": demo_scene.GEOMETRY}}


def _recording(name: str, path: Path) -> dict[str, Any]:
    return {"name": name, "type": "file", "path": str(path.resolve()), "realtime": True}


def _listen(client: Client, daemon: Daemon, screen: Screen, heard: Heard) -> float:
    """Show what comes until the recording is through or Ctrl-C; the CPU seconds used since listening."""
    before_s = 0.0
    moved, sample = time.monotonic(), 0
    try:
        while True:
            message = client.receive(POLL_S)
            if message is None:
                daemon.check()
            elif message.sample > sample:
                moved, sample = time.monotonic(), message.sample
            if time.monotonic() - moved > STUCK_S:
                raise CosydError(f"no audio for {STUCK_S} s; look at it with: cosyd doctor")
            if isinstance(message, State):
                check_source(message, daemon.check)
            if not before_s and isinstance(message, State) and message.status == "listening":
                before_s = daemon.usage().cpu_s
                screen.note(f"listening: {message.device}, {message.rate_hz} Hz, {message.model}")
            if message is not None:
                _take(message, screen, heard)
            if _ended(message):
                break
    except KeyboardInterrupt:
        pass  # how one ends listening to a microphone
    return daemon.usage().cpu_s - before_s


def _ended(message: Message | None) -> bool:
    return isinstance(message, State) and message.status == "ended"


def _take(message: Message, screen: Screen, heard: Heard) -> None:
    if isinstance(message, State) and message.rate_hz:
        heard.audio_s = max(heard.audio_s, message.sample / message.rate_hz)
    elif isinstance(message, AsrPartial | AsrFinal):
        heard.audio_s = max(heard.audio_s, message.end)
        # from the last sample used to publication, and from there to here
        latency_ms = message.latency_ms + (time.monotonic_ns() - message.t_mono_ns) / 1e6
        if isinstance(message, AsrPartial):
            heard.partial_ms.append(latency_ms)
            screen.partial(message)
        else:
            heard.finals.append(message)
            heard.final_ms.append(latency_ms)
            screen.final(message)


def _summary(heard: Heard, cpu_s: float) -> Text:
    if not heard.text:
        return Text("nothing was recognised", style="bold red")
    rows = (
        ("text", heard.text),
        ("words", f"{len(heard.text.split())} in {heard.audio_s:.1f} s of audio"),
        (
            "real-time factor",
            f"{cpu_s / heard.audio_s:.2f}: processor seconds of all processes per second of audio",
        ),
        ("latency", f"partials {_latency(heard.partial_ms)} after the newest sample in them"),
        ("", f"finals {_latency(heard.final_ms)} after the silence that ends them"),
    )
    lines = (Text.assemble((f"{name:>16}  ", "bold"), value) for name, value in rows)
    return Text("\n").join((Text(""), *lines))


def _latency(values_ms: Sequence[float]) -> str:
    if not values_ms:
        return "none"
    found = percentiles(values_ms, (50, 99))
    return f"P50 {found[50]:.0f} ms, P99 {found[99]:.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
