"""``cosyd level``: how loud each channel is, live; for plugging cables and setting gains."""

from __future__ import annotations

import math
import time
from argparse import Namespace

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from cosyd.cli.common import console, note, print_line, printable
from cosyd.cli.meter import Meters, complaints
from cosyd.cli.settings import load_config, pick_source
from cosyd.cli.tap import Tap
from cosyd.config.schema import SourceConfig
from cosyd.types import DeviceOpened, Level

PERIOD_MS = 50  # twenty times a second looks continuous
PLAIN_PERIOD_MS = 1_000  # a line a second into a file
INTERRUPTED = 130


def run(args: Namespace) -> int:
    source = pick_source(load_config(args).config, args.source)
    screen = console()
    meters = Meters()
    seconds = args.seconds or math.inf
    code = 0
    try:
        (_live if screen.is_terminal else _plain)(source, meters, seconds, screen)
    except KeyboardInterrupt:
        code = INTERRUPTED
    for complaint in complaints(meters):
        note(complaint)
    return code


def _live(source: SourceConfig, meters: Meters, seconds: float, screen: Console) -> None:
    with Tap(source, PERIOD_MS) as tap, Live(console=screen, auto_refresh=False) as live:
        for level in tap.levels(seconds):
            if level is not None:
                now = time.monotonic()
                meters.accept(level.rms_db, level.peak_db, level.clipped, now)
                live.update(Group(_title(tap.opened), *meters.draw(_width(screen), now)), refresh=True)


def _plain(source: SourceConfig, meters: Meters, seconds: float, _: Console) -> None:
    """A line a second: time in the source's clock, then each channel's level and peak."""
    with Tap(source, PLAIN_PERIOD_MS) as tap:
        for level in tap.levels(seconds):
            if level is not None and tap.opened is not None:
                meters.accept(level.rms_db, level.peak_db, level.clipped, time.monotonic())
                print_line(_line(level, tap.opened.rate_hz))


def _line(level: Level, rate_hz: int) -> str:
    pairs = zip(level.rms_db, level.peak_db, strict=True)
    channels = "  ".join(f"{number}: {rms:.1f} ({peak:.1f})" for number, (rms, peak) in enumerate(pairs))
    return f"{level.sample / rate_hz:8.1f} s  {channels} dBFS"


def _title(opened: DeviceOpened | None) -> Text:
    if opened is None:
        return Text("")
    about = f"{opened.rate_hz} Hz, {opened.channels} ch, {opened.format}"
    return Text.assemble((printable(opened.device), "bold"), f"  {about}")


def _width(screen: Console) -> int:
    return max(10, min(60, screen.width - 30))
