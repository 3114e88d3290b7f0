"""What passes over the pipes between the daemon and its workers: plain dataclasses, pickled.

Both ends are the same program of the same version, started by one another; nobody else can reach a pipe.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cosyd.asr.hotwords import Hotword, Rejected
from cosyd.config.schema import Config, SourceConfig
from cosyd.types import Backend, CaptureEvent, Checkpoint, GpuUsage, Health, Level, RecognitionEvent, Voice

# --- worker -> daemon ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ready:
    """The worker has all it needs and is turning. ``backends``: what each stage runs on."""

    backends: dict[str, Backend] = field(default_factory=dict)


@dataclass(frozen=True)
class Alive:
    """Nothing to report, but the worker is there."""


@dataclass(frozen=True)
class Failed:
    """The worker cannot go on and ends; trying again without a change is useless (see ``exit_code``)."""

    message: str
    exit_code: int


@dataclass(frozen=True)
class SourceProgress:
    """How far the recogniser is with a source: positions in its clock, losses, audio seconds since start.

    ``backends``: what the stages of its front end run on; empty before there is audio.
    """

    sample: int
    checkpoint: Checkpoint
    behind_s: float
    lost_frames: int
    audio_s: float
    vad_prob: float
    backends: dict[str, Backend] = field(default_factory=dict)


@dataclass(frozen=True)
class GpuReport:
    """Memory and load of the GPU, about once a second while there is one in use."""

    usage: GpuUsage


@dataclass(frozen=True)
class RecognitionProgress:
    """Sent at least once a second while the worker's loop turns.

    ``busy_s``: how long the recogniser has been at its present task, which tells a hung network; it may take
    ``patience_s`` where that is longer than usual. ``backends``: what the front end's stages run on for new
    sources.
    """

    sources: dict[str, SourceProgress]
    queue_depth: int
    coalesced: int
    busy_s: float
    decodes: int
    decode_s: float
    backends: dict[str, Backend] = field(default_factory=dict)
    patience_s: float = 0.0


@dataclass(frozen=True)
class Recognized:
    """An event of a source. ``latency_base_ns``: CLOCK_MONOTONIC at which its newest sample was captured."""

    source: str
    event: RecognitionEvent
    checkpoint: Checkpoint
    rate_hz: int
    latency_base_ns: int = 0
    vad_prob: float = 0.0
    voice: Voice | None = None  # of a final: who said it, and from where


@dataclass(frozen=True)
class Heard:
    """The loudness of a source."""

    source: str
    level: Level


@dataclass(frozen=True)
class Located:
    """Who speaks around a microphone array at ``sample``."""

    source: str
    sample: int
    voices: tuple[Voice, ...]


@dataclass(frozen=True)
class ChannelsJudged:
    """All faults of a source's channels at ``sample``, one line each: others than before, or the first."""

    source: str
    sample: int
    faults: tuple[str, ...]


@dataclass(frozen=True)
class GapSeen:
    """The recogniser came across a gap, or lost audio because it was too slow."""

    source: str
    sample: int
    gap: int
    lost: int


@dataclass(frozen=True)
class Drained:
    """All audio of a source that has ended is recognised and published."""

    source: str


@dataclass(frozen=True)
class CloseExpected:
    """The end of the source's ring will not be taken for the end of its stream."""

    source: str


@dataclass(frozen=True)
class Removed:
    """All of a source that was removed is published; nothing of it follows."""

    source: str


@dataclass(frozen=True)
class HotwordsChecked:
    """Answers the ``CheckHotwords`` of this number: the phrases that would have no effect."""

    number: int
    rejected: tuple[Rejected, ...]


@dataclass(frozen=True)
class Notice:
    """A condition worth publishing as a ``health`` message."""

    source: str
    health: Health


@dataclass(frozen=True)
class Renew:
    """The worker goes on, but another in its place could do what it cannot: use the GPU again."""

    reason: str


# --- daemon -> worker ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stop:
    """Finish what is open, send it, end."""


@dataclass(frozen=True)
class Open:
    """The models are ready: open the device."""


@dataclass(frozen=True)
class Reconfigure:
    """Live keys changed."""

    config: Config


@dataclass(frozen=True)
class SetLogLevel:
    """Log from this level on. A worker obeys at once, whatever else it is doing."""

    level: str


@dataclass(frozen=True)
class SetMuted:
    """Stop or resume recognising a source; its audio is still read."""

    source: str
    muted: bool


@dataclass(frozen=True)
class SourceLost:
    """The device of a source went away: close what is open where its audio ends."""

    source: str


@dataclass(frozen=True)
class AddSource:
    """Read this source, from ``checkpoint`` on."""

    source: SourceConfig
    ring_path: str
    checkpoint: Checkpoint
    muted: bool


@dataclass(frozen=True)
class SourceClosing:
    """The source is about to be closed by us: the end of its ring is no end of the stream.

    Answered by ``CloseExpected``; the device is closed only then.
    """

    source: str


@dataclass(frozen=True)
class CheckHotwords:
    """Which of these phrases cannot be favoured? Answered by ``HotwordsChecked``."""

    number: int
    hotwords: tuple[Hotword, ...]


@dataclass(frozen=True)
class RemoveSource:
    """Close what is open of this source and forget it; answered by ``Removed``."""

    name: str


FromWorker = (
    Ready
    | Alive
    | Failed
    | RecognitionProgress
    | Recognized
    | Heard
    | Located
    | ChannelsJudged
    | GapSeen
    | Drained
    | CloseExpected
    | Removed
    | HotwordsChecked
    | Notice
    | GpuReport
    | Renew
    | CaptureEvent
)
ToWorker = (
    Stop
    | Open
    | Reconfigure
    | SetLogLevel
    | SetMuted
    | SourceLost
    | SourceClosing
    | AddSource
    | CheckHotwords
    | RemoveSource
)
