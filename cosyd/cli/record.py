"""``cosyd record``: a source, or a recording, into a file with exact time, at any tap of the pipeline."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from cosyd.cli.common import note
from cosyd.cli.settings import load_config, pick_source
from cosyd.cli.tap import Tap
from cosyd.config.load import Loaded
from cosyd.config.paths import ring_path
from cosyd.config.schema import SourceConfig
from cosyd.errors import RingNotFound
from cosyd.models.store import ModelStore
from cosyd.ring import RingReader
from cosyd.runtime.offline import Player
from cosyd.runtime.recording import (
    HEARD,
    Piece,
    Recorder,
    about,
    clock,
    front_end_for,
    heard_pieces,
    open_slot,
    raw_pieces,
    source_for,
)

INTERRUPTED = 130


def run(args: Namespace) -> int:
    loaded = load_config(args)
    source = pick_source(loaded.config, args.source)
    if args.file:
        source = _played(source, args.file)
    path = args.out or Path(f"{source.name}-{args.tap}-{time.strftime('%Y%m%d-%H%M%S')}.wav")
    code = 0
    with ExitStack() as stack:
        reader, whence = _open(stack, loaded, source, of_file=bool(args.file))
        spec = reader.spec if args.tap == "raw" else HEARD
        recorder = stack.enter_context(Recorder(path, spec, about(source, args.tap, reader)))
        note(f"recording {args.tap} of {whence} to {path}; Ctrl-C ends it")
        try:
            for piece in _pieces(loaded, source, args.tap, reader, args.seconds):
                recorder.write(piece)
        except KeyboardInterrupt:
            code = INTERRUPTED
        recorder.about["clock"] = clock(reader, reader.position)
        recorder.close()
        note(f"{path}: {recorder.seconds:.1f} s from sample {recorder.first or 0} on, {spec}")
    return code


def _played(source: SourceConfig, file: str) -> SourceConfig:
    """The source as it would be if its device had delivered this recording, as fast as it can be read."""
    taken = {"type": "file", "path": file, "device": None, "realtime": False, "loop": False}
    return source.model_copy(update={**taken, "rate_hz": None, "channels": None, "format": "auto"})


def _open(stack: ExitStack, loaded: Loaded, source: SourceConfig, *, of_file: bool) -> tuple[RingReader, str]:
    """A reader of the source: beside the daemon where it runs, else of our own capture."""
    if of_file:
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


def _pieces(
    loaded: Loaded, source: SourceConfig, tap: str, reader: RingReader, most_s: float | None
) -> Iterator[Piece]:
    if tap == "raw":
        return raw_pieces(reader, most_s)
    front_end = front_end_for(tap, loaded.config, ModelStore(loaded.paths.models))
    slot = open_slot(front_end, reader.spec, source_for(tap, source))
    return heard_pieces(reader, front_end, slot, most_s)
