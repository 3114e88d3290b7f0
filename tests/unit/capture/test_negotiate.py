"""Agreeing on rate, channels and format (field cases 6 and 7)."""

from __future__ import annotations

import itertools

import pytest
from fake_device import MIC, gone, refuse_all

from cosyd.capture.device import DeviceInfo
from cosyd.capture.negotiate import AUTO_FORMATS, MAX_CHANNELS, candidates, negotiate
from cosyd.config.schema import SourceConfig
from cosyd.errors import AudioError, UnsupportedFormat
from cosyd.spec import AudioSpec, SampleFormat


def only(**wanted):
    """A device that takes exactly these values."""
    return lambda device, spec: all(getattr(spec, key) == value for key, value in wanted.items())


def test_the_devices_own_values_come_first():
    assert next(iter(candidates(MIC, SourceConfig()))) == AudioSpec(48_000, 4, SampleFormat.S16)


@pytest.mark.parametrize("asked_hz", [None, 16_000, 44_100])
def test_a_device_that_takes_48_khz_only_is_opened_at_48_khz(asked_hz):
    spec = negotiate(MIC, SourceConfig(rate_hz=asked_hz), only(rate_hz=48_000))
    assert spec.rate_hz == 48_000


def test_the_configured_rate_is_tried_first():
    assert negotiate(MIC, SourceConfig(rate_hz=16_000), lambda device, spec: True).rate_hz == 16_000


@pytest.mark.parametrize(
    ("rate_hz", "channels", "sample_format"),
    list(itertools.product((8_000, 16_000, 44_100, 48_000, 96_000), (1, 2, 4), AUTO_FORMATS)),
)
def test_whatever_single_combination_a_device_has_is_found(rate_hz, channels, sample_format):
    wanted = AudioSpec(rate_hz, channels, sample_format)
    assert negotiate(MIC, SourceConfig(), lambda device, spec: spec == wanted) == wanted


@pytest.mark.parametrize("name", ["s16", "s24", "s32", "f32"])
def test_a_configured_format_is_the_only_one(name):
    assert {spec.format.value for spec in candidates(MIC, SourceConfig(format=name))} == {name}
    others = lambda device, spec: spec.format.value != name  # noqa: E731
    with pytest.raises(UnsupportedFormat, match=f"as {name};"):
        negotiate(MIC, SourceConfig(format=name), others)


def test_virtual_devices_with_hundreds_of_channels_are_capped():
    virtual = DeviceInfo(0, "default", "ALSA", 128, 44_100)
    assert max(spec.channels for spec in candidates(virtual, SourceConfig())) == MAX_CHANNELS


def test_refusal_is_one_line_that_says_what_was_tried():
    with pytest.raises(UnsupportedFormat) as caught:
        negotiate(MIC, SourceConfig(name="desk", channels=6), lambda device, spec: refuse_all(spec))
    message = str(caught.value)
    assert "\n" not in message
    for part in ("Array", "48000", "6 channels", "s16, s32, f32, s24", "'desk'"):
        assert part in message


def test_a_device_that_cannot_be_asked_is_not_called_unsupported():
    with pytest.raises(AudioError, match="does not answer") as caught:
        negotiate(MIC, SourceConfig(), lambda device, spec: gone(spec))
    assert not isinstance(caught.value, UnsupportedFormat)
