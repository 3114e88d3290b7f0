"""``cosyd array calibrate``: the microphones' gains and delays, measured and kept in the configuration."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from cosyd.array.calibrate import Calibration, Frames, from_claps, from_noise
from cosyd.array.geometry import Geometry
from cosyd.cli.common import note, print_json, print_table
from cosyd.cli.settings import load_config, pick_source
from cosyd.cli.sources import open_source, played
from cosyd.config.load import Loaded
from cosyd.config.paths import SYSTEM_CONFIG
from cosyd.config.schema import SourceConfig
from cosyd.errors import CosydError, UsageError
from cosyd.frontend.pcm import to_float
from cosyd.runtime.recording import Piece, raw_pieces

SECONDS = 10.0
TRUSTED_DB = 3.0  # beyond, a microphone is worth looking at


def run(args: Namespace) -> int:
    loaded = load_config(args)
    source = pick_source(loaded.config, args.source)
    if source.array is None:
        raise UsageError(f"source {source.name} has no array; give it one: sources.{source.name}.array")
    geometry = Geometry.of(source.array)
    frames, rate_hz = _listen(args, loaded, source, geometry)
    if args.azimuth is None:
        found = from_noise(frames, geometry, rate_hz)
    else:
        found = from_claps(frames, geometry, rate_hz, args.azimuth)
    _show(args, geometry, found)
    if not args.dry_run:
        path = args.out or _drop_in(args, source)
        _write(path, drop_in(source.name, found))
        note(f"written to {path}; `cosyd ctl reload` applies it")
    return 0


def _listen(args: Namespace, loaded: Loaded, source: SourceConfig, geometry: Geometry) -> tuple[Frames, int]:
    """Frames [n, microphones] and their rate."""
    if args.file:
        source = played(source, args.file)
    with ExitStack() as stack:
        reader, whence = open_source(stack, loaded, source, of_file=bool(args.file))
        geometry.require(reader.spec.channels)
        what = "claps" if args.azimuth is not None else "silence, please: the noise of the room"
        note(f"listening to {whence} for {args.seconds:g} s: {what}")
        frames = _joined(raw_pieces(reader, args.seconds), geometry)
        return frames, reader.spec.rate_hz


def _joined(pieces: Iterable[Piece], geometry: Geometry) -> Frames:
    parts = []
    for piece in pieces:
        columns = [to_float(piece.frames[:, channel]) for channel in geometry.channels]
        parts.append(np.nan_to_num(np.stack(columns, axis=1), posinf=0.0, neginf=0.0))
    if not parts:
        raise CosydError("the source delivers nothing")
    return np.concatenate(parts)


def _show(args: Namespace, geometry: Geometry, found: Calibration) -> None:
    if args.json:
        print_json({"gains_db": found.gains_db, "delays_us": found.delays_us, "notes": found.notes})
    else:
        delays = found.delays_us or ("",) * geometry.microphones
        print_table(
            ("microphone", "channel", "gain", "late by"),
            [
                (
                    str(i),
                    str(geometry.channels[i]),
                    f"{gain:+.1f} dB",
                    f"{late:+.1f} µs" if late != "" else "–",
                )
                for i, (gain, late) in enumerate(zip(found.gains_db, delays, strict=True))
            ],
        )
    for line in found.notes:
        note(line)
    for i, gain in enumerate(found.gains_db):
        if abs(gain) > TRUSTED_DB:
            note(f"microphone {i} differs by {abs(gain):.1f} dB; is it covered, or its gain set apart?")


def drop_in(name: str, found: Calibration) -> str:
    """A configuration file with the calibration of one source, and nothing else."""
    when = time.strftime("%Y-%m-%d %H:%M")
    lines = [
        f"# Written by `cosyd array calibrate` on {when}. Calibrate again, or delete this file.",
        "sources:",
        f"  - name: {name}",
        "    array:",
        f"      gains_db: {list(found.gains_db)}",
    ]
    if found.delays_us is not None:
        lines.append(f"      delays_us: {list(found.delays_us)}")
    return "\n".join(lines) + "\n"


def _drop_in(args: Namespace, source: SourceConfig) -> Path:
    if args.config:
        raise UsageError("with -c, name the file for the calibration too: --out FILE, or --dry-run")
    return SYSTEM_CONFIG / "conf.d" / f"60-calibration-{source.name}.yaml"


def _write(path: Path, text: str) -> None:
    """As a whole or not at all: a daemon that watches the folder never sees half of it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text)
        beside.replace(path)
    except OSError as error:
        raise CosydError(
            f"{path} cannot be written: {error.strerror}; run it with sudo, or name a file with --out"
        ) from error
