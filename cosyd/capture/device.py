"""The small protocol between the watch loop and an audio library, and the data it speaks of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from cosyd.ring import RingWriter
from cosyd.spec import AudioSpec

# ALSA's card number changes when a device is plugged in again; the number after it, of the device on the
# card, does not. "USB Audio (hw:2,0)" comes back as "USB Audio (hw:5,0)".
_CARD_NUMBER = re.compile(r"\(hw:\d+,(\d+)\)")


@dataclass(frozen=True)
class DeviceInfo:
    """An input device as the audio library lists it. ``index`` and card numbers change on replug."""

    index: int
    name: str
    host: str  # the library's back end: ALSA, Core Audio
    channels: int
    default_rate_hz: int
    latency_s: float = 0.0
    is_default: bool = False

    @property
    def stable_name(self) -> str:
        """The name without what changes when the device is plugged in again."""
        return stable_name(self.name)


def stable_name(name: str) -> str:
    return _CARD_NUMBER.sub(r"(hw:*,\1)", name)


class DeviceStream(Protocol):
    """An open device. It writes into the ring from ``start`` until ``close``."""

    def start(self) -> None: ...

    @property
    def active(self) -> bool:
        """False once the library itself has noticed that the device is gone."""
        ...

    def close(self) -> None:
        """Idempotent. May block for ever if the driver hangs: call it through ``call_bounded``."""
        ...


class AudioSystem(Protocol):
    """An audio library. Every method may be slow; one call at a time. Errors are ``AudioError``."""

    def refresh(self) -> None:
        """Look for devices anew. No stream may be open."""
        ...

    def devices(self) -> list[DeviceInfo]:
        """The input devices."""
        ...

    def supports(self, device: DeviceInfo, spec: AudioSpec) -> bool:
        """Whether the device takes exactly this. Raises if it cannot be asked (busy, gone)."""
        ...

    def open(self, device: DeviceInfo, spec: AudioSpec, block_frames: int, ring: RingWriter) -> DeviceStream:
        """Open, but do not start."""
        ...

    def close(self) -> None:
        """Release the library. Idempotent."""
        ...

    def abandon(self) -> None:
        """A call hangs and the process is about to end: undo what would keep it from saying so."""
        ...
