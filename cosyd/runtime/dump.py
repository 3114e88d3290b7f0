"""The last seconds of a source, raw and as the recogniser heard them, as files in a folder of the daemon."""

from __future__ import annotations

import time
from pathlib import Path

from cosyd.errors import AudioError, CosydError, RingNotFound
from cosyd.ring import RingReader
from cosyd.runtime.debug_tap import tap_path
from cosyd.runtime.recording import Recorder, clock, raw_pieces

FOLDER = "dumps"  # in paths.state
MOST_FILES = 40  # sound files kept, the newest: ten dumps of two sources


def dump(source: str, ring: Path, folder: Path, seconds: float) -> list[Path]:
    """Write what the rings still hold of the last ``seconds``; the files. Raises CosydError."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise CosydError(f"{folder} cannot be made: {error.strerror}") from error
    stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() // 1_000_000 % 1_000:03d}"
    taps = {"raw": ring, "asr": tap_path(ring)}
    files = [
        file
        for tap, path in taps.items()
        if (file := _dump_ring(source, tap, path, _free(folder, f"{source}-{stamp}-{tap}"), seconds))
    ]
    if not files:
        raise AudioError(f"source {source} has delivered nothing yet")
    _prune(folder)
    return files


def _free(folder: Path, name: str) -> Path:
    """A name that no file has."""
    names = (f"{name}{suffix}.wav" for suffix in ("", *(f"-{n}" for n in range(2, 100))))
    return next((path for each in names if not (path := folder / each).exists()), folder / f"{name}.wav")


def _dump_ring(source: str, tap: str, path: Path, file: Path, seconds: float) -> Path | None:
    """None where there is no such ring, or nothing in it."""
    try:
        with RingReader.attach(path) as now:
            end, spec = now.write_index, now.spec
        begin = max(0, end - spec.frames(seconds))
        with RingReader.attach(path, position=begin) as reader:
            if reader.position >= end:
                return None
            with Recorder(file, spec, {"source": source, "tap": tap}) as recorder:
                for piece in raw_pieces(reader, None, until=end):
                    recorder.write(piece)
                if tap == "raw":
                    recorder.about["clock"] = clock(reader, end)
    except RingNotFound:
        return None
    return file


def _prune(folder: Path) -> None:
    """The oldest go, with what is beside them."""
    files = sorted(folder.glob("*.wav"), key=lambda path: path.stat().st_mtime_ns)
    for path in files[:-MOST_FILES]:
        path.unlink(missing_ok=True)
        path.with_name(path.name + ".json").unlink(missing_ok=True)
