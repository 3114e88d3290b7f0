"""The sound of a source for commands beside the daemon: its ring, our own capture, or a recording."""

from __future__ import annotations

from contextlib import ExitStack

from cosyd.cli.tap import Tap
from cosyd.config.load import Loaded
from cosyd.config.paths import ring_path
from cosyd.config.schema import SourceConfig
from cosyd.errors import RingNotFound
from cosyd.ring import RingReader


def played(source: SourceConfig, file: str) -> SourceConfig:
    """The source as it would be if its device had delivered this recording, as fast as it can be read."""
    taken = {"type": "file", "path": file, "device": None, "realtime": False, "loop": False}
    return source.model_copy(update={**taken, "rate_hz": None, "channels": None, "format": "auto"})


def open_source(
    stack: ExitStack, loaded: Loaded, source: SourceConfig, *, of_file: bool
) -> tuple[RingReader, str]:
    """A reader of the source, and what it reads. ``of_file``: the source is one that ``played`` made.

    Raises AudioError.
    """
    if of_file:
        from cosyd.runtime.offline import Player  # brings the recogniser with it

        player = stack.enter_context(Player(source))
        player.opened()
        reader = stack.enter_context(RingReader.attach(player.ring_path, position=0))
        player.go()
        return reader, f"{source.path}"
    try:
        reader = RingReader.attach(ring_path(loaded.paths, source.name))
        return stack.enter_context(reader), f"{source.name}, beside the daemon"
    except RingNotFound:
        tap = stack.enter_context(Tap(source, 0))
        return stack.enter_context(tap.reader()), source.name
