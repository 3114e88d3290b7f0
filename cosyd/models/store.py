"""Models on disk: ``ROOT/NAME/FILE``, verified against the registry.

A path (written with a separator), or the name of a folder in ROOT that the registry does not know, is a
user's own model and taken as it is: there is nothing to verify it against.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from functools import lru_cache
from pathlib import Path

from cosyd.errors import ModelDamaged, ModelError, ModelMissing
from cosyd.models.model import ModelFile
from cosyd.models.registry import MODELS, lookup

_READ_BYTES = 1 << 20


def sha256_of(path: Path) -> str:
    """Hex sha256 of a file's content. It is read once in a process, and again when the file has changed."""
    about = path.stat()
    return _sha256(path, about.st_ino, about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=64)
def _sha256(path: Path, inode: int, size: int, mtime_ns: int) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_READ_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def check_file(path: Path, file: ModelFile, remedy: str) -> None:
    """Raise unless ``path`` is exactly ``file``: ModelMissing, or ModelDamaged with what is wrong with it."""
    try:
        size = path.stat().st_size
        if size != file.size:
            how = "truncated" if size < file.size else "too long"
            raise ModelDamaged(f"{path}: {size:,} bytes instead of {file.size:,}: {how}; {remedy}")
        digest = sha256_of(path)
    except FileNotFoundError as error:
        raise ModelMissing(f"{path}: not there; {remedy}") from error
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    if digest != file.sha256:
        raise ModelDamaged(f"{path}: sha256 {digest[:12]}… instead of {file.sha256[:12]}…: damaged; {remedy}")


class ModelStore:
    """The folder that holds the models. Costs nothing to make and need not exist yet."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def own(self, name: str) -> Path | None:
        """The folder of a user's own model; None when ``name`` is the registry's, or nobody's."""
        folder = Path(name).expanduser() if os.sep in name else self.root / name
        return folder if name not in MODELS and (os.sep in name or folder.is_dir()) else None

    def path(self, name: str) -> Path:
        """Folder of a model, there or not. Raises ModelMissing for a name that nobody knows."""
        return self.own(name) or self.root / lookup(name).name

    def file(self, name: str, file: str) -> Path:
        """Path of one file of a model, unverified."""
        return self.path(name) / file

    def installed(self, name: str) -> bool:
        """Whether all files are there in the right size; content is not read."""
        folder = self.path(name)
        if self.own(name):
            return folder.is_dir()
        return all(_size(folder / file.name) == file.size for file in lookup(name).files)

    def verify(self, name: str) -> None:
        """Raise unless every file has the pinned size and sha256.

        Reads everything, once in a process: 45 MB take about 35 ms with the processor's sha instructions,
        less than loading them does, and a damaged file is found before it does harm.
        """
        folder = self.path(name)
        if self.own(name):
            if not folder.is_dir():
                raise ModelMissing(f"{folder}: no such folder")
            return
        remedy = f"run: cosyd models pull {name}"
        if not folder.is_dir():
            raise ModelMissing(f"model {name} is not in {self.root}; {remedy}")
        for file in lookup(name).files:
            check_file(folder / file.name, file, remedy)

    def require(self, name: str) -> Path:
        """The folder of a model that has just been verified."""
        self.verify(name)
        return self.path(name)

    def remove(self, name: str) -> bool:
        """Delete a model of the registry; False when it was not there. A user's own folder is left alone."""
        if self.own(name):
            raise ModelError(f"{name}: a folder of your own; delete it yourself")
        folder = self.root / lookup(name).name
        if not folder.exists():
            return False
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise ModelError(f"{folder}: cannot be removed: {error.strerror}") from error
        return True


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
