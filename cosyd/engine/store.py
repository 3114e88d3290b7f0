"""The cache of plans: looked up by key; what is damaged or another's is explained; failures are remembered.

Beside ``NAME-PRECISION-KEY.plan`` may lie ``….note``, JSON: that this build failed and when, so that a
machine that cannot build a network does not try at every start; or what the golden check said, so that it
runs once.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cosyd.engine.plan import Plan, PlanKey, read_header, read_plan, write_whole
from cosyd.errors import ModelDamaged

log = logging.getLogger(__name__)

RETRY_S = 24 * 3_600.0  # a build that failed is tried again after a day, or when anything in its key changes


@dataclass(frozen=True)
class Note:
    """``failed``: why there is no plan. ``refused``: why not to use it. ``checked``: golden check ran."""

    failed: str = ""
    refused: str = ""
    checked: bool = False
    at: float = 0.0  # Unix time


class PlanStore:
    """``folder`` is made when the first plan is written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: PlanKey) -> Path:
        return self.folder / key.filename

    def kernels(self, key: PlanKey) -> Path:
        """What TensorRT-RTX makes of the plan on the device."""
        return self.path(key).with_suffix(".kernels")

    def load(self, key: PlanKey) -> Plan | None:
        """The plan of this key. None, with one line in the log, when there is none that may be used."""
        path = self.path(key)
        try:
            return read_plan(path, key)
        except FileNotFoundError:
            self._explain_others(key)
        except ModelDamaged as error:
            log.warning("%s; it is compiled again", error)
            self.drop(key)
        except OSError as error:
            log.warning("%s cannot be read (%s); it is compiled again", path, error.strerror)
        return None

    def note(self, key: PlanKey) -> Note:
        return _read_note(self._note_path(key))

    def failure(self, key: PlanKey) -> str | None:
        """Why it is not tried to build this one; None if it may be."""
        note = self.note(key)
        if not note.failed or not 0 <= time.time() - note.at < RETRY_S:
            return None
        return note.failed

    def notes(self) -> list[tuple[str, Note]]:
        """All that is remembered, by the name of the plan's file."""
        return [(path.stem, _read_note(path)) for path in sorted(self.folder.glob("*.note"))]

    def note_failure(self, key: PlanKey, reason: str) -> None:
        self._write(key, Note(failed=reason, at=time.time()))

    def note_check(self, key: PlanKey, refused: str | None) -> None:
        self._write(
            key, replace(self.note(key), failed="", refused=refused or "", checked=True, at=time.time())
        )

    def drop(self, key: PlanKey) -> None:
        """Plan, note and kernels."""
        for path in (self.path(key), self._note_path(key), self.kernels(key)):
            with contextlib.suppress(OSError):
                path.unlink()

    def prune(self, key: PlanKey) -> None:
        """Plans of the same network and precision under other keys: of other versions, GPUs or files."""
        for path in self._others(key):
            for each in (path, path.with_suffix(".note"), path.with_suffix(".kernels")):
                with contextlib.suppress(OSError):
                    each.unlink()

    def _others(self, key: PlanKey) -> list[Path]:
        return sorted(set(self.folder.glob(f"{key.network}-{key.precision}-*.plan")) - {self.path(key)})

    def _explain_others(self, key: PlanKey) -> None:
        for path in self._others(key):
            try:
                differs = key.differences(read_header(path).get("key", {}))
            except (ModelDamaged, OSError):
                differs = "it is damaged"
            log.info("%s is not used: %s; %s is compiled again", path.name, differs, key.network)

    def _note_path(self, key: PlanKey) -> Path:
        return self.path(key).with_suffix(".note")

    def _write(self, key: PlanKey, note: Note) -> None:
        """A note that cannot be kept is only a note."""
        try:
            write_whole(self._note_path(key), json.dumps(asdict(note)).encode())
        except OSError as error:
            log.warning("%s cannot be written: %s", self._note_path(key), error.strerror)


def _read_note(path: Path) -> Note:
    """One that cannot be read says nothing."""
    try:
        return Note(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return Note()
