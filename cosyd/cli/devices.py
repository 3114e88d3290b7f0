"""``cosyd devices``: what one can listen to."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict

from cosyd.capture.device import AudioSystem, DeviceInfo
from cosyd.capture.negotiate import COMMON_RATES_HZ, MAX_CHANNELS
from cosyd.capture.run import audio_system
from cosyd.cli.common import note, print_json, print_table, printable
from cosyd.errors import AudioError
from cosyd.spec import AudioSpec, SampleFormat


def run(args: Namespace) -> int:
    system = audio_system()
    try:
        system.refresh()
        found = [(device, list(_rates(system, device)) if args.rates else []) for device in system.devices()]
    finally:
        system.close()
    if args.json:
        print_json([{**asdict(device), "rates_hz": rates} for device, rates in found])
    elif found:
        print_table(("", "INDEX", "NAME", "CHANNELS", "RATE", "SYSTEM"), [_row(*item) for item in found])
    else:
        note("no input devices: is one plugged in, and may this user open it? see: cosyd doctor")
    return 0


def _row(device: DeviceInfo, rates: list[int]) -> tuple[str, ...]:
    shown = ", ".join(map(str, rates)) or str(device.default_rate_hz)
    mark = "*" if device.is_default else ""
    return mark, str(device.index), printable(device.name), str(device.channels), f"{shown} Hz", device.host


def _rates(system: AudioSystem, device: DeviceInfo) -> Iterator[int]:
    """The common rates that it takes. A device that is in use by somebody else cannot be asked."""
    channels = min(device.channels, MAX_CHANNELS)
    for rate_hz in sorted(COMMON_RATES_HZ):
        try:
            taken = any(
                system.supports(device, AudioSpec(rate_hz, channels, sample_format))
                for sample_format in (SampleFormat.S16, SampleFormat.S32)
            )
        except AudioError:
            return
        if taken:
            yield rate_hz
