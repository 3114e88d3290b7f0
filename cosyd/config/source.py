"""The configuration of sources: what is captured, and the microphone array that it may come from."""

from __future__ import annotations

from typing import Literal

from cosyd.config.section import Name, Section, live


class ZoneConfig(Section):
    """A sector around the array."""

    name: Name = live("zone", "Name in messages.")
    from_deg: float = live(0.0, "Where the sector begins; it goes counter-clockwise.", ge=-360, le=360)
    to_deg: float = live(360.0, "Where it ends.", ge=-360, le=360)
    listen: bool = live(True, "true: listen into it; false: whatever comes from there is to be ignored.")


class ArrayConfig(Section):
    """A source's microphone array: where its microphones are, and what to make of that."""

    geometry: Literal["respeaker-4", "respeaker-6", "linear-4", "uma-8", "xmos-7", "square-4", "free"] = live(
        "free", "A known device or arrangement, or free: as positions_m says."
    )
    positions_m: tuple[tuple[float, ...], ...] | None = live(
        None, "geometry free: x, y and z (0 where left out) of each microphone, in metres; at most 32."
    )
    channels: tuple[int, ...] | None = live(
        None, "Which channel (from 0) each microphone is; null is the geometry's own, or 0, 1, 2, ..."
    )
    reference_channels: tuple[int, ...] | None = live(
        None,
        "Channels that carry what the device plays; null is the geometry's own, [] none. Of reference_source "
        "where that is set; null is then the mean of all.",
    )
    reference_source: Name | None = live(
        None, "Another source that captures what is played, as the monitor of a playback device; mute it."
    )
    reference_lead_ms: int = live(
        20, "By how much the times of reference_source may be late; frames wait for so long.", ge=0, le=500
    )
    orientation_deg: float = live(
        0.0, "Where the device's +x points in the room; directions are given in the room.", ge=-360, le=360
    )
    beamformer: Literal["off", "delay-sum", "superdirective", "mvdr"] = live(
        "mvdr",
        "What the recogniser hears: the first microphone; a plain beam; the sharpest fixed beam; a beam that "
        "adapts to the noise around, which the denoiser tells from speech.",
    )
    steer: Literal["track", "fixed"] = live("track", "The beam follows who speaks, or stays at azimuth_deg.")
    azimuth_deg: float = live(0.0, "steer fixed: where to, in the room.", ge=-360, le=360)
    elevation_deg: float = live(0.0, "steer fixed: how far above the array's plane.", ge=-90, le=90)
    loading_db: float = live(
        -25.0, "Diagonal loading of the sharp beams: higher is more robust and less sharp.", ge=-60, le=20
    )
    zones: tuple[ZoneConfig, ...] = live((), "Sectors to listen to or to ignore; none is all around.")
    gains_db: tuple[float, ...] | None = live(
        None, "Added to each microphone, in their order; null is 0. `cosyd array calibrate` writes it."
    )
    delays_us: tuple[float, ...] | None = live(
        None, "By how much each microphone's channel is late; null is 0. `cosyd array calibrate` writes it."
    )
    echo: Literal["auto", "off"] = live(
        "auto", "Take what the device plays out of what it hears; auto: where there are reference channels."
    )
    echo_tail_ms: int = live(256, "Length of the echo path that is learnt.", ge=64, le=1_024)
    echo_delay_ms: int = live(1_000, "Longest time from the reference to its echo.", ge=0, le=2_000)
    echo_suppress_db: float = live(
        -30.0,
        "Most that is taken from what the filter leaves of the echo while nobody speaks; 0 is nothing.",
        ge=-60,
        le=0,
    )
    doa: Literal["off", "2d", "3d"] = live("2d", "Find where voices come from, in the plane or in space.")
    doa_ms: int = live(100, "Pause between doa messages of one voice.", ge=16, le=10_000)
    talkers: int = live(4, "Most voices followed at a time.", ge=1, le=8)


class SourceConfig(Section):
    """One source of audio. Sources are added, removed and changed live; a changed source is reopened."""

    name: Name = live("mic", "Name in topics and commands: lower-case letters, digits, - and _.")
    type: Literal["portaudio", "pyaudio", "file", "pipe"] = live(
        "portaudio",
        "Where the audio comes from: a device through PortAudio, whose C callback writes the ring, or "
        "through PyAudio, whose blocks a Python thread copies; a recording; raw PCM from a pipe.",
    )
    device: str | int | None = live(
        None,
        "portaudio/pyaudio: index, exact name or part of the name of the device; null is the default input.",
    )
    path: str | None = live(None, "file: the recording; pipe: a FIFO, or - for standard input.")
    rate_hz: int | None = live(
        None, "Rate to open at; null takes the device's own. pipe: required.", ge=8_000, le=192_000
    )
    channels: int | None = live(
        None, "Channels to open; null takes all the device has (at most 32).", ge=1, le=32
    )
    format: Literal["auto", "s16", "s24", "s32", "f32"] = live(
        "auto", "Sample format; auto tries s16, then others."
    )
    channel_map: tuple[int, ...] | None = live(
        None, "Which channels (from 0) the recogniser hears; null is all of them."
    )
    mix: Literal["first", "mean"] = live("mean", "How the mapped channels become one.")
    array: ArrayConfig | None = live(
        None,
        "The channels are a microphone array (see docs/array.md); takes the place of channel_map and mix.",
    )
    realtime: bool = live(True, "file: at the recording's pace; false: as fast as it can be processed.")
    loop: bool = live(False, "file: start over at the end.")
    buffer_s: float = live(30.0, "Seconds of audio that the ring keeps.", ge=2, le=600)
    block_ms: int = live(10, "portaudio/pyaudio: length of a device block.", ge=2, le=100)
    stale_ms: int = live(
        800, "A device that delivers nothing for so long counts as unplugged.", ge=100, le=60_000
    )
    reopen_ms: int = live(500, "Pause between attempts to open a device that is away.", ge=50, le=60_000)
    muted: bool = live(False, "Start muted: captured, but neither recognised nor published.")
    hotwords: tuple[str, ...] = live((), "Phrases to favour here, beside those of asr.hotwords.")
