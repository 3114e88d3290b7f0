"""ONNX files that are made from published ones, once: rewriting a network takes seconds, too many at a start.

``FOLDER/NAME-KEY.onnx``; the key is of the published file's content and of how it was rewritten, so that
another model or another version of cosyd makes it anew. What it takes the place of is removed: the same
network under other keys, and networks that only earlier versions made. A daemon that runs has read its files,
and one of another version makes its own anew at its next start.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from cosyd.engine.plan import write_whole
from cosyd.errors import ModelError, ModelMissing
from cosyd.models.store import sha256_of

log = logging.getLogger(__name__)

READABLE = 0o644
KEY_DIGITS = 16
RECIPES = 1  # raise it when ``rewrite``, ``contrib`` or ``shipped`` make other networks of the same files


def onnx_folder(cache: Path) -> Path:
    """``cache``: ``paths.cache``."""
    return cache / "onnx"


def prepared(folder: Path, name: str, key: str, make: Callable[[], bytes], beside: Collection[str]) -> Path:
    """Where the network lies that ``make`` makes. ``key``: of the published files that it makes it of.
    ``beside``: names of all networks of its family, which is what ``name`` begins with (``lean-…``).

    Raises what ``make`` raises, and OSError where it cannot be written.
    """
    path = folder / f"{name}-{key}.onnx"
    if path.is_file():
        return path
    write_whole(path, make())
    path.chmod(READABLE)  # whoever runs the daemon reads what an administrator pulled
    for old in _replaced(path, name, {*beside} - {name}):
        with contextlib.suppress(OSError):
            old.unlink()
    log.info("%s: prepared, %.0f MB", path.name, path.stat().st_size / 1e6)
    return path


def _replaced(path: Path, name: str, beside: Collection[str]) -> Iterator[Path]:
    """What was prepared before: this network under other keys, and any of its family but those ``beside``."""
    family = name.split("-")[0]
    ours = re.compile(rf"({family}-[a-z]+)-[0-9a-f]{{{KEY_DIGITS}}}\.onnx")
    for file in path.parent.glob(f"{family}-*.onnx"):
        made = ours.fullmatch(file.name)
        if made and file != path and made[1] not in beside:
            yield file


def key_of(published: Sequence[Path]) -> str:
    """Of the content of all that several networks are made of, which whoever verified it has read already.

    Raises ModelMissing; ModelError for what cannot be read.
    """
    digest = hashlib.sha256(str(RECIPES).encode())
    for path in published:
        try:
            digest.update(sha256_of(path).encode())
        except FileNotFoundError:
            raise ModelMissing(f"{path}: not there; run: cosyd models pull") from None
        except OSError as error:
            raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    return digest.hexdigest()[:KEY_DIGITS]
