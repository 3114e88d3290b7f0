"""Data that crosses between the parts of the daemon: plain, frozen, picklable.

Indices called ``sample`` count frames in the *source clock*: the frame index of the source's ring, at the
device's rate, which never goes back, gaps included. Seconds called ``start``/``end`` are the same clock
divided by the device's rate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

# --- capture -> daemon ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeviceOpened:
    """The source delivers. ``channel_count`` etc. are what the device really gives, not what was asked."""

    sample: int
    device: str
    rate_hz: int
    channels: int
    format: str
    reopened: bool = False


@dataclass(frozen=True)
class DeviceLost:
    """The source stopped delivering at ``sample``. ``reason`` is one line for people."""

    sample: int
    reason: str


@dataclass(frozen=True)
class GapRecorded:
    """``frames`` frames, from ``sample`` on, never existed: the clock went on while nothing was captured."""

    sample: int
    frames: int


@dataclass(frozen=True)
class SourceEnded:
    """A file or pipe reached its end at ``sample``; nothing follows."""

    sample: int


@dataclass(frozen=True)
class CaptureProgress:
    """Sent at least once a second while the capture worker is alive and turning.

    ``drift_ppm``: how much faster (+) the device's clock runs than the machine's monotonic clock; None
    until there is enough to tell. ``capturing`` is False while the device is away.
    """

    sample: int
    capturing: bool
    overruns: int
    lost_frames: int
    drift_ppm: float | None = None


CaptureEvent = DeviceOpened | DeviceLost | GapRecorded | SourceEnded | CaptureProgress

# --- recognition ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Word:
    """A word with its times in seconds of the source clock and its confidence in 0..1."""

    w: str
    start: float
    end: float
    conf: float | None = None


@dataclass(frozen=True)
class Transcript:
    """What a recogniser says of one piece of audio. ``tokens`` are the model's own ids.

    ``sure``: for each word of ``text`` (split at blanks) the least probability of its tokens; empty where
    the model gives none. ``counts``: how many tokens each word has; empty where the model does not tell.
    ``others``: other readings that the search ended with, the likeliest first.
    ``model``: which model said it, where it is not the configured one but that of the second pass.
    ``language``: a code such as ``en``, of models of several; ``language_conf``: the probability of that one,
    None where it was asked for.
    """

    text: str
    tokens: tuple[int, ...] = ()
    conf: float | None = None
    words: tuple[Word, ...] = ()
    sure: tuple[float, ...] = ()
    others: tuple[str, ...] = ()
    model: str = ""
    language: str = ""
    language_conf: float | None = None
    counts: tuple[int, ...] = ()


EndReason = Literal[
    "silence",  # endpoint.silence_ms of silence after speech
    "silence_short",  # endpoint.short_silence_ms of silence after very short speech
    "longest",  # endpoint.longest_ms reached; split at the best pause before it
    "no_speech",  # the gate opened, but nothing was recognised for endpoint.no_speech_ms
    "device_lost",  # the device went away in the middle
    "gap",  # audio was lost in the middle
    "end_of_stream",  # a file or pipe ended
    "muted",  # the source was muted
    "shutdown",  # the daemon stops
]


@dataclass(frozen=True)
class SpeechStarted:
    """The gate opened. ``sample`` is where speech began (before the pre-roll is added)."""

    sample: int
    utt: int


@dataclass(frozen=True)
class SpeechEnded:
    """The gate closed. ``sample`` is where speech ended."""

    sample: int
    utt: int


@dataclass(frozen=True)
class Partial:
    """Text so far. ``stable`` is the prefix of ``text`` that no later message of this utterance changes."""

    utt: int
    text: str
    stable: str
    start_sample: int
    end_sample: int
    conf: float | None = None


@dataclass(frozen=True)
class Final:
    """The text of a whole utterance. An empty one (nothing was recognised) is not published.

    ``resume_sample``: everything before it is settled; a recogniser that starts afresh begins here.
    ``decided_sample``: how far the audio had come when a rule ended the utterance, its silence included.
    """

    utt: int
    text: str
    start_sample: int
    end_sample: int
    reason: EndReason
    resume_sample: int
    conf: float | None = None
    words: tuple[Word, ...] = ()
    decided_sample: int = 0
    more: bool = False  # the utterance was split: its continuation follows without a pause
    others: tuple[str, ...] = ()  # other readings of the whole, the likeliest first; none with one path
    model: str = ""  # of the second pass, if the text is from it
    written: str | None = None  # the text as one would write it, where the configuration asks for that
    language: str = ""  # and language_conf: as in Transcript
    language_conf: float | None = None


RecognitionEvent = SpeechStarted | SpeechEnded | Partial | Final


@dataclass(frozen=True)
class Checkpoint:
    """Where a restarted recogniser takes up a source again, so that each utterance is published once.

    ``sample``: read the ring from here (None: from the live edge). ``utt``: number of the utterance
    that is open or comes next. ``opened``: its start was published already. ``stable``: its committed
    prefix.
    """

    sample: int | None = None
    utt: int = 1
    opened: bool = False
    stable: str = ""
    rate_hz: int = 0  # of the clock that ``sample`` counts in; 0: the ring's, whatever that is


@dataclass(frozen=True)
class Voice:
    """Someone who speaks. Degrees: counter-clockwise from +x in the room, above the plane (None: not asked).

    ``track``: the number of the voice; the same one as long as it is followed. ``conf``: 0..1, that it
    speaks from there just now. ``zone``: the configured sector it is in, if any.
    """

    track: int
    azimuth_deg: float
    elevation_deg: float | None = None
    conf: float = 0.0
    zone: str = ""


@dataclass(frozen=True)
class Level:
    """Loudness of one stretch of a source: dBFS per channel, and the VAD's last probability."""

    sample: int
    rms_db: tuple[float, ...]
    peak_db: tuple[float, ...]
    vad_prob: float = 0.0
    clipped: bool = False
    faults: tuple[str, ...] = ()  # of channels, one line each for people


@dataclass(frozen=True)
class Backend:
    """Which implementation a stage runs on, and why that one."""

    name: str
    reason: str


@dataclass(frozen=True)
class Health:
    """A condition worth telling. ``severity``: info, warning, error. ``code`` is stable, for machines."""

    code: str
    severity: Literal["info", "warning", "error"]
    message: str
    details: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class GpuUsage:
    """Memory of one GPU in bytes.

    ``used``: by us now; ``reserved``: held by our pool; ``peak``: most ever used. ``spare`` is kept for
    when the device is full, ``spare_used`` of it is in use, ``fallbacks`` requests were served by it.
    ``device_used`` of ``device_total``: by all programs. ``load``: share of time in which the GPU was busy,
    None where the driver does not tell. ``moved``: streams that went to the CPU instead, by cause.
    """

    used: int
    reserved: int
    peak: int
    spare: int
    spare_used: int
    device_used: int
    device_total: int
    fallbacks: int
    load: float | None = None
    moved: dict[str, int] = field(default_factory=dict)
