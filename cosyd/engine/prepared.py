"""ONNX files that are made from published ones, once: rewriting a network takes seconds, too many at a start.

``FOLDER/NAME-KEY.onnx``; the key is of the published file's content and of how it was rewritten, so that
another model or another version of cosyd makes it anew. Files of other keys are removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from cosyd.engine.plan import write_whole
from cosyd.errors import ModelError, ModelMissing
from cosyd.models.store import sha256_of

log = logging.getLogger(__name__)

READABLE = 0o644
RECIPES = 1  # raise it when ``rewrite``, ``contrib`` or ``shipped`` make other networks of the same files


def onnx_folder(cache: Path) -> Path:
    """``cache``: ``paths.cache``."""
    return cache / "onnx"


def prepared(folder: Path, name: str, key: str, make: Callable[[], bytes]) -> Path:
    """Where the network lies that ``make`` makes. ``key``: of the published files that it makes it of.

    Raises what ``make`` raises, and OSError where it cannot be written.
    """
    path = folder / f"{name}-{key}.onnx"
    if path.is_file():
        return path
    write_whole(path, make())
    path.chmod(READABLE)  # whoever runs the daemon reads what an administrator pulled
    for other in set(folder.glob(f"{name}-*.onnx")) - {path}:
        with contextlib.suppress(OSError):
            other.unlink()
    log.info("%s: prepared, %.0f MB", path.name, path.stat().st_size / 1e6)
    return path


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
    return digest.hexdigest()[:16]
