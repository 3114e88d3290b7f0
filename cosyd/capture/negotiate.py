"""Agreeing with a device on rate, channels and sample format."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cosyd.capture.device import DeviceInfo
from cosyd.config.schema import SourceConfig
from cosyd.errors import AudioError, UnsupportedFormat
from cosyd.spec import AudioSpec, SampleFormat

MAX_CHANNELS = 32  # as the configuration; virtual ALSA devices claim hundreds
# Rates of real devices. First the multiples of 16 kHz, which resample with the shortest filters.
COMMON_RATES_HZ = (48_000, 44_100, 32_000, 16_000, 96_000, 24_000, 22_050, 8_000)
AUTO_FORMATS = (SampleFormat.S16, SampleFormat.S32, SampleFormat.F32, SampleFormat.S24)


def negotiate(
    device: DeviceInfo, config: SourceConfig, supports: Callable[[DeviceInfo, AudioSpec], bool]
) -> AudioSpec:
    """The first combination that the device takes.

    A configured rate is only a wish (the front end resamples); channels and format are demands. Raises
    UnsupportedFormat with what was tried, or what ``supports`` raised if that was in the way.
    """
    failure: AudioError | None = None
    for spec in candidates(device, config):
        try:
            if supports(device, spec):
                return spec
        except AudioError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    raise UnsupportedFormat(_refused(device, config))


def candidates(device: DeviceInfo, config: SourceConfig) -> Iterator[AudioSpec]:
    """What to try, best first."""
    for rate_hz in _rates(device, config):
        for channels in _channels(device, config):
            for sample_format in _formats(config):
                yield AudioSpec(rate_hz, channels, sample_format)


def _rates(device: DeviceInfo, config: SourceConfig) -> list[int]:
    first = [config.rate_hz] if config.rate_hz else []
    return list(dict.fromkeys((*first, device.default_rate_hz, *COMMON_RATES_HZ)))


def _channels(device: DeviceInfo, config: SourceConfig) -> list[int]:
    if config.channels is not None:
        return [config.channels]
    most = min(device.channels, MAX_CHANNELS)
    return list(dict.fromkeys((most, *(n for n in (2, 1) if n < most))))


def _formats(config: SourceConfig) -> tuple[SampleFormat, ...]:
    return AUTO_FORMATS if config.format == "auto" else (SampleFormat(config.format),)


def _refused(device: DeviceInfo, config: SourceConfig) -> str:
    rates = ", ".join(str(rate) for rate in _rates(device, config))
    channels = " or ".join(str(n) for n in _channels(device, config))
    formats = ", ".join(f.value for f in _formats(config))
    return (
        f"{device.name!r} (up to {device.channels} channels) takes none of {rates} Hz with {channels} "
        f"channels as {formats}; set channels and format of source {config.name!r} to what it has"
    )
