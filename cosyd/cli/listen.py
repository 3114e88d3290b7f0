"""``cosyd listen``: the real daemon, in private, with captions in the terminal."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from cosyd.cli.captions import Captions
from cosyd.cli.common import console, note, print_line
from cosyd.cli.settings import load_config, pick_source
from cosyd.client import AnyMessage, AsrFinal, Client, State
from cosyd.config.load import Loaded
from cosyd.config.schema import SourceConfig
from cosyd.runtime.embedded import STOP_S, EmbeddedDaemon, check_source

TOPICS = ("",)
LEVEL_MS = 60  # a meter that looks continuous
TURN_S = 0.1  # how often the screen is drawn while nothing comes
DRAIN_S = 1.0  # the last final comes within this after the end of a file
INTERRUPTED = 130


def run(args: Namespace) -> int:
    loaded = load_config(args)
    source = pick_source(loaded.config, args.source)
    captions = Captions()
    screen = console()
    code = 0
    with (
        EmbeddedDaemon(_settings(loaded, source)) as daemon,
        Client(daemon.events, daemon.control, TOPICS) as client,
        _display(screen, captions) as show,
    ):
        try:
            _follow(client, daemon, captions, show)
        except KeyboardInterrupt:
            code = INTERRUPTED
            _finish(client, daemon, captions, show)
    note(captions.summary())
    return code


def _settings(loaded: Loaded, source: SourceConfig) -> dict[str, Any]:
    """The whole configuration, with one source and without what two daemons cannot share."""
    settings = loaded.config.model_dump(mode="json")
    settings["sources"] = [source.model_dump(mode="json")]
    settings["publish"] |= {"endpoint": None, "curve": False, "level_ms": LEVEL_MS}
    settings["control"] = {}
    settings["metrics"] = {}
    settings["paths"] = {"models": str(loaded.paths.models)}
    return settings


class _Display:
    """Lines that stay, and below them what changes."""

    def __init__(self, screen: Console, live: Live | None) -> None:
        self._screen = screen
        self._live = live

    def keep(self, line: Text, is_result: bool) -> None:
        """On a terminal everything; into a file the results, the rest beside them."""
        if self._live is not None:
            self._screen.print(line)
        elif is_result:
            print_line(line.plain)
        else:
            note(line.plain)

    def draw(self, captions: Captions) -> None:
        if self._live is not None:
            self._live.update(captions.draw())


@contextmanager
def _display(screen: Console, captions: Captions) -> Iterator[_Display]:
    if not screen.is_terminal:
        yield _Display(screen, None)
        return
    with Live(captions.draw(), console=screen, refresh_per_second=20, transient=True) as live:
        yield _Display(screen, live)


def _follow(client: Client, daemon: EmbeddedDaemon, captions: Captions, show: _Display) -> None:
    """Until the source has ended and its last words are shown."""
    ends_at = float("inf")
    while time.monotonic() < ends_at:
        message = client.receive(TURN_S)
        if message is None:
            daemon.check()
        else:
            _take(message, captions, show)
        if isinstance(message, State):
            check_source(message, daemon.check)
            if message.status == "ended":
                ends_at = time.monotonic() + DRAIN_S
        show.draw(captions)


def _finish(client: Client, daemon: EmbeddedDaemon, captions: Captions, show: _Display) -> None:
    """After Ctrl-C: what was being said is still recognised. A second Ctrl-C does without."""
    deadline = time.monotonic() + STOP_S
    with suppress(KeyboardInterrupt):
        daemon.end()
        while time.monotonic() < deadline:
            ended = daemon.ended  # asked first: what it published before has arrived then
            message = client.receive(TURN_S)
            if message is not None:
                _take(message, captions, show)
            elif ended:
                return
            if isinstance(message, State) and message.status == "stopped":
                return
            show.draw(captions)


def _take(message: AnyMessage, captions: Captions, show: _Display) -> None:
    for line in captions.accept(message, time.monotonic()):
        show.keep(line, isinstance(message, AsrFinal))
