"""Is there something to listen to, may we, and does it carry sound?"""

from __future__ import annotations

import getpass
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from cosyd.array.faults import Fault
from cosyd.array.health import Frames
from cosyd.array.health import examine as examine_channels
from cosyd.capture.device import DeviceInfo
from cosyd.capture.resolve import find_device
from cosyd.capture.run import list_devices
from cosyd.cli.common import printable
from cosyd.cli.doctor.check import Check, Setup, fail, ok, warn
from cosyd.cli.meter import Meters, complaints
from cosyd.cli.tap import Tap
from cosyd.config.schema import SourceConfig
from cosyd.errors import AudioError, CosydError
from cosyd.frontend.pcm import to_float
from cosyd.ring import Block
from cosyd.runtime.channels import watched_channels
from cosyd.spec import AudioSpec, SampleFormat
from cosyd.types import DeviceOpened

LISTEN_S = 1.0
REMEDIES = {
    "silent": "leave it out of the channels, or look at its cable and its gain",
    "clipped": "turn the input down (alsamixer, pavucontrol)",
    "dc": "the converter is off; frontend.remove_dc takes it out of what is recognised",
    "duplicate": "leave one of them out: it says nothing that the other does not",
    "gain": "cosyd array calibrate makes up for it; is the microphone covered?",
    "swapped": "correct array.channels, or the cables",
    "late": "cosyd array calibrate --from DEG makes up for it",
}
PERIOD_MS = 100
DEVICE_TYPES = ("portaudio", "pyaudio")
SOUND = Path("/dev/snd")


def examine(setup: Setup) -> Iterator[Check]:
    yield from sound_server(dict(os.environ), os.geteuid())
    yield from permission(SOUND)
    devices: dict[str, list[DeviceInfo]] = {}
    for kind in sorted({source.type for source in setup.config.sources} | {"portaudio"}):
        if kind in DEVICE_TYPES:
            yield from _devices(kind, devices, needed=_needs(setup, kind))
    for source in setup.config.sources:
        check = source_exists(source, devices)
        yield check
        if setup.listen and check.status == "ok" and source.type in DEVICE_TYPES:
            yield signal(source)


def _needs(setup: Setup, kind: str) -> bool:
    return any(source.type == kind for source in setup.config.sources)


def sound_server(environ: dict[str, str], uid: int) -> Iterator[Check]:
    """PulseAudio or PipeWire, found by the socket that both have."""
    folder = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}"
    sockets = [Path(folder) / "pulse/native", Path("/run/pulse/native")]
    there = next((path for path in sockets if path.is_socket()), None)
    if there is not None:
        yield ok("audio.server", f"PulseAudio or PipeWire answers at {there}")
    elif environ.get("PULSE_SERVER"):
        yield ok("audio.server", f"PULSE_SERVER is {environ['PULSE_SERVER']}")
    else:
        yield ok("audio.server", "no PulseAudio or PipeWire for this user; ALSA's devices are used directly")


def permission(folder: Path) -> Iterator[Check]:
    """Whether this user may open the sound cards."""
    cards = sorted(folder.glob("pcm*c")) if folder.is_dir() else []
    if not cards:
        yield warn(
            "audio.cards", "no sound card with an input", "plug one in; in a container pass /dev/snd in"
        )
        return
    shut = [card.name for card in cards if not os.access(card, os.R_OK | os.W_OK)]
    if shut:
        remedy = f"sudo usermod -aG audio {getpass.getuser()}, then log in again"
        yield fail("audio.permission", f"{', '.join(shut)} may not be opened by this user", remedy)
    else:
        yield ok("audio.permission", f"{len(cards)} inputs of sound cards may be opened")


def _devices(kind: str, found: dict[str, list[DeviceInfo]], *, needed: bool) -> Iterator[Check]:
    name = f"audio.{kind}"
    try:
        found[kind] = list_devices(kind)
    except AudioError as error:
        message, remedy = str(error), "apt install libportaudio2, and see the message"
        yield fail(name, message, remedy) if needed else warn(name, message, remedy)
        return
    if found[kind]:
        yield ok(name, f"{len(found[kind])} input devices; see: cosyd devices")
    else:
        remedy = "plug in a microphone, or use a source of type file or pipe"
        message = "there are no input devices"
        yield fail(name, message, remedy) if needed else warn(name, message, remedy)


def source_exists(source: SourceConfig, devices: dict[str, list[DeviceInfo]]) -> Check:
    """Whether what the configuration names is there."""
    name = f"audio.source.{source.name}"
    if source.type in DEVICE_TYPES:
        try:
            device = find_device(devices.get(source.type, []), source.device)
        except AudioError as error:
            return fail(name, str(error), f"set sources.{source.name}.device; see: cosyd devices")
        return ok(name, f"{printable(device.name)}, {device.channels} channels, {device.default_rate_hz} Hz")
    if source.path == "-":
        return ok(name, "standard input")
    path = Path(source.path or "")
    if not path.exists():
        return fail(name, f"{path} is not there", f"set sources.{source.name}.path")
    if not os.access(path, os.R_OK):
        return fail(name, f"{path} may not be read by this user", f"chmod +r {path}")
    return ok(name, f"{path} is there")


def signal(source: SourceConfig) -> Check:
    """Listen for a second: do all channels carry something?"""
    name = f"audio.signal.{source.name}"
    try:
        meters, faults = _listen(source)
    except CosydError as error:
        return warn(
            name, str(error), "end the program that uses the device; if it is cosyd itself, all is well"
        )
    silent = complaints(meters)
    if not meters.channels:
        return fail(name, "the device is open but delivers nothing", "choose another device or rate")
    if len(silent) == len(meters.channels):
        return fail(
            name, "all channels are silent: digital zero", "unmute the input (alsamixer, pavucontrol)"
        )
    if silent:
        remedy = f"leave it out with sources.{source.name}.channel_map"
        return warn(name, ", ".join(silent), remedy)
    if faults:
        what = ", ".join(fault.message for fault in faults)
        return warn(name, what, REMEDIES[faults[0].code])
    levels = " ".join(f"{meter.rms_db:.0f}" for meter in meters.channels)
    return ok(name, f"all {len(meters.channels)} channels carry sound, now at {levels} dBFS")


def _listen(source: SourceConfig) -> tuple[Meters, list[Fault]]:
    """Levels of about a second, and what is wrong with its channels; less when the device delivers less."""
    meters, heard = Meters(), Heard(source)
    with Tap(source, PERIOD_MS) as tap:
        for level in tap.levels(LISTEN_S, heard.accept):
            if level is not None:
                meters.accept(level.rms_db, level.peak_db, level.clipped, time.monotonic())
        return meters, heard.faults(tap.opened)


class Heard:
    """The frames of a second, to be judged together."""

    def __init__(self, source: SourceConfig) -> None:
        self._source = source
        self._frames: list[Frames] = []

    def accept(self, block: Block) -> None:
        self._frames.append(to_float(block.frames))

    def faults(self, opened: DeviceOpened | None) -> list[Fault]:
        if opened is None or not self._frames:
            return []
        frames = np.nan_to_num(np.concatenate(self._frames), posinf=0.0, neginf=0.0)
        spec = AudioSpec(opened.rate_hz, opened.channels, SampleFormat.F32)
        channels, geometry = watched_channels(self._source, spec)
        return examine_channels(frames, channels, matched=geometry is not None)
