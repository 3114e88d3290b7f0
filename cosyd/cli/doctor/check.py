"""One thing that was looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cosyd.config.load import Loaded
from cosyd.config.paths import Paths
from cosyd.config.schema import Config

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Check:
    """``name``: stable, for machines. ``remedy``: what to do, empty when all is well."""

    name: str
    status: Status
    message: str
    remedy: str = ""


def ok(name: str, message: str) -> Check:
    return Check(name, "ok", message)


def warn(name: str, message: str, remedy: str = "") -> Check:
    return Check(name, "warn", message, remedy)


def fail(name: str, message: str, remedy: str) -> Check:
    return Check(name, "fail", message, remedy)


@dataclass(frozen=True)
class Setup:
    """What is examined. ``listen``: microphones may be opened for a second."""

    loaded: Loaded
    listen: bool = True

    @property
    def config(self) -> Config:
        return self.loaded.config

    @property
    def paths(self) -> Paths:
        return self.loaded.paths
