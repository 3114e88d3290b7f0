"""Plans: compiled networks on disk, with all that decides whether one may be used.

File: ``COSYDPLN``, uint32 length of the header, the header (JSON), the library's own bytes. The name is the
network's and the first digits of the key, the hash of everything that a plan depends on. A plan of another
key is never opened; one whose bytes changed is noticed by its sum. Written to a temporary file, then renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cosyd.engine.profiles import Profile
from cosyd.engine.tensors import TensorSpec
from cosyd.errors import ModelDamaged

Precision = Literal["fp32", "fp16", "int8"]

MAGIC = b"COSYDPLN"
FORMAT = 1
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class PlanKey:
    """What a plan depends on."""

    network: str  # its name, for people and the file's name
    onnx_sha256: str
    library: str  # with its version
    capability: tuple[int, int]
    precision: Precision
    profiles: tuple[Profile, ...]
    sparse: bool = False
    workspace_mb: int = 1_024

    @property
    def digest(self) -> str:
        text = json.dumps(self._fields(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def filename(self) -> str:
        return f"{self.network}-{self.precision}-{self.digest[:16]}.plan"

    def differences(self, other: Mapping[str, Any]) -> str:
        """In words, what of a plan's header differs from this key."""
        ours = self._fields()
        changed = [name for name in ours if json.loads(json.dumps(ours[name])) != other.get(name)]
        return ", ".join(f"{name} {other.get(name)} is now {ours[name]}" for name in changed)

    def _fields(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "network": self.network,
            "onnx_sha256": self.onnx_sha256,
            "library": self.library,
            "capability": ".".join(map(str, self.capability)),
            "precision": self.precision,
            "profiles": [str(profile) for profile in self.profiles],
            "sparse": self.sparse,
            "workspace_mb": self.workspace_mb,
        }

    header = property(_fields)


@dataclass(frozen=True)
class Plan:
    """A compiled network and what its users need to know of it."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    profiles: tuple[Profile, ...]
    code: bytes = field(repr=False)
    metadata: Mapping[str, str] = field(default_factory=dict)


def write_plan(path: Path, key: PlanKey, plan: Plan) -> None:
    """Whole or not at all, also when several write the same."""
    header = {
        "key": key.header,
        "sum": hashlib.sha256(plan.code).hexdigest(),
        "inputs": [_dump_spec(spec) for spec in plan.inputs],
        "outputs": [_dump_spec(spec) for spec in plan.outputs],
        "profiles": [dict(profile.axes) for profile in plan.profiles],
        "metadata": dict(plan.metadata),
    }
    text = json.dumps(header).encode()
    write_whole(path, MAGIC + _LENGTH.pack(len(text)) + text + plan.code)


def write_whole(path: Path, data: bytes) -> None:
    """Whole or not at all; its folder is made. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)  # noqa: PTH105
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_header(path: Path) -> dict[str, Any]:
    """Raises ModelDamaged when it is no plan, OSError when it cannot be read."""
    return _split(path, path.read_bytes())[0]


def read_plan(path: Path, key: PlanKey) -> Plan:
    """Raises ModelDamaged with one line for a plan that is damaged or another's; FileNotFoundError."""
    header, code = _split(path, path.read_bytes())
    foreign = key.differences(header.get("key", {}))
    if foreign:
        raise ModelDamaged(f"{path.name} is not for this machine or network: {foreign}")
    try:
        if hashlib.sha256(code).hexdigest() != header["sum"]:
            raise ModelDamaged(f"{path.name} is damaged: its sum differs")
        return Plan(
            inputs=tuple(_load_spec(spec) for spec in header["inputs"]),
            outputs=tuple(_load_spec(spec) for spec in header["outputs"]),
            profiles=tuple(Profile.of({a: tuple(r) for a, r in p.items()}) for p in header["profiles"]),
            code=code,
            metadata=dict(header["metadata"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelDamaged(f"{path.name} is damaged: its header cannot be understood") from error


def _split(path: Path, data: bytes) -> tuple[dict[str, Any], bytes]:
    start = len(MAGIC) + _LENGTH.size
    if len(data) < start or data[: len(MAGIC)] != MAGIC:
        raise ModelDamaged(f"{path.name} is damaged: not a plan of cosyd")
    (length,) = _LENGTH.unpack_from(data, len(MAGIC))
    try:
        header = json.loads(data[start : start + length])
    except ValueError as error:
        raise ModelDamaged(f"{path.name} is damaged: its header cannot be read") from error
    if not isinstance(header, dict):
        raise ModelDamaged(f"{path.name} is damaged: its header is no header")
    return header, data[start + length :]


def _dump_spec(spec: TensorSpec) -> list[Any]:
    return [spec.name, spec.dtype.name, list(spec.shape)]


def _load_spec(values: list[Any]) -> TensorSpec:
    name, dtype, shape = values
    return TensorSpec(name, np.dtype(dtype), tuple(shape))
