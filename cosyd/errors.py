"""The error tree. Every error that a user can meet is one of these.

::

    CosydError                   exit 1   something was wrong; the message says what to do
    ├── UsageError               exit 2   wrong command line
    ├── ConfigError              exit 2   one or more faults in the configuration, all of them listed
    ├── AudioError               exit 3   audio input and output
    │   ├── DeviceNotFound                no such device; lists what there is
    │   ├── DeviceBusy                    another program holds it
    │   ├── DeviceLost                    it went away, or its callbacks stopped
    │   └── UnsupportedFormat             no rate, format or channel count that both sides take
    ├── RingError                exit 1   the shared-memory ring
    │   ├── RingNotFound                  no writer has made it yet
    │   ├── RingBusy                      another living writer owns it
    │   └── RingFormatError               not a ring, or another version's
    ├── ModelError               exit 4   models
    │   ├── ModelMissing                  not on disk; says which command pulls it
    │   ├── ModelDamaged                  size or sha256 differs
    │   └── InferenceError                a network failed while running
    ├── GpuError                 exit 5   a GPU is required and not usable
    ├── PublishError             exit 1   sockets, keys, journal
    └── ControlError             exit 1   the daemon refused a request, or does not answer

A message is one line: what failed, on what, and what to do about it. Errors of other libraries are
translated where they arise (``raise DeviceBusy(...) from error``), nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class CosydError(Exception):
    """Base of all errors of cosyd. ``exit_code`` is what a command that ends with it returns."""

    exit_code: ClassVar[int] = 1


class UsageError(CosydError):
    """The command line asks for something that makes no sense."""

    exit_code = 2


class ConfigError(CosydError):
    """Faults in the configuration, every one of them.

    ``problems`` holds lines such as ``/etc/cosyd/cosyd.yaml:12: vad.treshold: unknown key, did you mean
    'threshold'?``; the message is all of them, one a line.
    """

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[type[ConfigError], tuple[tuple[str, ...]]]:
        return type(self), (self.problems,)


class AudioError(CosydError):
    """Audio input failed."""

    exit_code = 3


class DeviceNotFound(AudioError):
    """No device has that name or index."""


class DeviceBusy(AudioError):
    """Another program holds the device."""


class DeviceLost(AudioError):
    """The device went away while it was running, or stopped delivering without an error."""


class UnsupportedFormat(AudioError):
    """The device and the configuration have no rate, sample format or channel count in common."""


class RingError(CosydError):
    """The shared-memory ring could not be made, attached or used."""


class RingNotFound(RingError):
    """There is no ring at that path (yet)."""


class RingBusy(RingError):
    """Another writer, which is alive, owns the ring."""


class RingFormatError(RingError):
    """The file is not a ring, or was made by another version."""


class ModelError(CosydError):
    """A model is missing, damaged, or failed."""

    exit_code = 4


class ModelMissing(ModelError):
    """A model's files are not on disk."""


class ModelDamaged(ModelError):
    """A model's file has the wrong size or sha256, or cannot be parsed."""


class InferenceError(ModelError):
    """A network failed while running."""


class GpuError(CosydError):
    """The configuration requires a GPU and none is usable."""

    exit_code = 5


class PublishError(CosydError):
    """A socket, key or journal could not be opened or written."""


class ControlError(CosydError):
    """The daemon refused a control request or does not answer."""
