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
from cosyd.errors import ModelMissing

log = logging.getLogger(__name__)

READABLE = 0o644
RECIPES = 1  # raise it when ``rewrite``, ``contrib`` or ``shipped`` make other networks of the same files


def onnx_folder(cache: Path) -> Path:
    """``cache``: ``paths.cache``."""
    return cache / "onnx"


def prepared(folder: Path, name: str, published: Path | Sequence[Path], make: Callable[[], bytes]) -> Path:
    """Where the network lies that ``make`` makes of the published file or files.

    Raises ModelMissing, what ``make`` raises, and OSError where it cannot be written.
    """
    files = [published] if isinstance(published, Path) else list(published)
    path = folder / f"{name}-{_key(files)}.onnx"
    if path.is_file():
        return path
    write_whole(path, make())
    path.chmod(READABLE)  # whoever runs the daemon reads what an administrator pulled
    for other in set(folder.glob(f"{name}-*.onnx")) - {path}:
        with contextlib.suppress(OSError):
            other.unlink()
    log.info("%s: prepared from %s, %.0f MB", path.name, files[0].name, path.stat().st_size / 1e6)
    return path


def _key(published: Sequence[Path]) -> str:
    digest = hashlib.sha256(str(RECIPES).encode())
    for path in published:
        try:
            digest.update(path.read_bytes())
        except FileNotFoundError:
            raise ModelMissing(f"{path}: not there; run: cosyd models pull") from None
    return digest.hexdigest()[:16]
