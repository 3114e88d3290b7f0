"""``cosyd record``: a source, or a recording, into a file with exact time, at any tap of the pipeline."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from cosyd.cli.common import note
from cosyd.cli.settings import load_config, pick_source
from cosyd.cli.sources import open_source, played
from cosyd.config.load import Loaded
from cosyd.config.schema import SourceConfig
from cosyd.models.store import ModelStore
from cosyd.ring import RingReader
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
        source = played(source, args.file)
    path = args.out or Path(f"{source.name}-{args.tap}-{time.strftime('%Y%m%d-%H%M%S')}.wav")
    code = 0
    with ExitStack() as stack:
        reader, whence = open_source(stack, loaded, source, of_file=bool(args.file))
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


def _pieces(
    loaded: Loaded, source: SourceConfig, tap: str, reader: RingReader, most_s: float | None
) -> Iterator[Piece]:
    if tap == "raw":
        return raw_pieces(reader, most_s)
    front_end = front_end_for(tap, loaded.config, ModelStore(loaded.paths.models))
    slot = open_slot(front_end, reader.spec, source_for(tap, source))
    return heard_pieces(reader, front_end, slot, most_s)
