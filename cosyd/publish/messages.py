"""What travels on the events socket: one Struct a type, and the bytes they become.

A message is two frames: the topic ``TYPE.SOURCE`` and a JSON object. Objects grow by new fields and new
types only; a reader ignores what it does not know, so that an old subscriber reads a newer daemon. For the
same reason fields with a set of values (``status``, ``event``, ``reason``, ``severity``) are plain strings:
a value that comes later is not an error.

JSON has no NaN or infinity. Where such a number can arise (the level of digital silence, a confidence of
0/0) the Struct replaces it as its field says (``finite``); elsewhere it is a fault of the caller and a
ValueError.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

import msgspec

from cosyd.errors import PublishError
from cosyd.publish.finite import decibel, finite_or, replace, require_finite
from cosyd.types import Level as LevelReading

VERSION = 1
DAEMON = "_daemon"
"""The source of messages that concern the daemon as a whole; no configured source can have this name."""


class Word(msgspec.Struct, frozen=True):
    """A word: its times in seconds of the source clock, its confidence in 0..1 where the model gives one."""

    w: str
    start: float
    end: float
    conf: float | None = None

    def __post_init__(self) -> None:
        require_finite(self, "start", "end")
        replace(self, "conf", finite_or(self.conf, None))


class Direction(msgspec.Struct, frozen=True):
    """Where a voice comes from: degrees counter-clockwise from +x in the room, and above the plane.

    ``track``: the number of the voice, the same as in ``doa``; ``conf``: 0..1; ``zone``: the configured
    sector it lies in, empty for none.
    """

    azimuth_deg: float
    elevation_deg: float | None = None
    conf: float | None = None
    track: int = 0
    zone: str = ""

    def __post_init__(self) -> None:
        require_finite(self, "azimuth_deg")
        replace(self, "elevation_deg", finite_or(self.elevation_deg, None))
        replace(self, "conf", finite_or(self.conf, None))


class Message(msgspec.Struct, kw_only=True, frozen=True, tag_field="type"):
    """What all messages have in common. The publisher fills in everything but ``source`` and ``sample``.

    ``v``: version of the format. ``seq``: one counter for all topics of the publisher; it never repeats,
    not even across restarts, where it may jump. ``n``: counts the messages of this topic since the
    start, from 1, so that who subscribes to a few topics can tell loss exactly, too. ``kept``: ``seq`` of
    the newest journalled event before this message; who has not seen that one may ask for it. ``boot``: id
    of this start of the daemon. ``t_wall``: seconds since 1970 and ``t_mono_ns``: CLOCK_MONOTONIC, both at
    publication. ``sample``: position in the source's own clock.
    """

    JOURNALLED: ClassVar[bool] = False

    v: int = VERSION
    source: str
    seq: int = 0
    n: int = 0
    kept: int = 0
    boot: str = ""
    t_wall: float = 0.0
    t_mono_ns: int = 0
    sample: int = 0

    @property
    def type(self) -> str:
        """The type's name on the wire, such as ``asr.final``."""
        return str(self.__struct_config__.tag)

    @property
    def topic(self) -> str:
        return f"{self.type}.{self.source}"


class _Recognition(Message, kw_only=True, frozen=True):
    """Common to partials and finals. ``start`` and ``end`` are seconds of the source clock;
    ``latency_ms`` runs from the last sample used to publication; a final has used its endpoint's silence.
    ``pass_``, on the wire ``pass``: which of two passes over the audio it is from (``asr.second_pass``)."""

    utt: int
    text: str
    start: float
    end: float
    words: tuple[Word, ...] = ()
    conf: float | None = None
    model: str = ""
    latency_ms: float = 0.0
    pass_: int = msgspec.field(default=1, name="pass")

    def __post_init__(self) -> None:
        require_finite(self, "start", "end", "latency_ms")
        replace(self, "conf", finite_or(self.conf, None))


class AsrPartial(_Recognition, kw_only=True, frozen=True, tag="asr.partial"):
    """Text so far. ``stable`` is the prefix of ``text`` that no later message of the utterance changes."""

    stable: str = ""


class AsrFinal(_Recognition, kw_only=True, frozen=True, tag="asr.final"):
    """The text of an utterance. ``reason``: the endpoint rule that ended it (see ``types.EndReason``).
    ``more``: it was split for its length, and the next one continues it without a pause. ``direction``:
    where it was spoken, if the source is a microphone array and found out. ``written``: the text as one would
    write it, if the configuration's section ``text`` asks for that; ``text`` is what was recognised.
    ``others``: other readings of the whole utterance, the likeliest first, if ``asr.beam`` is above 1.
    ``language``: what was spoken, as a code such as ``en``, of models that hear several; ``language_conf``:
    0..1, how sure that is, null where ``asr.language`` says it."""

    JOURNALLED: ClassVar[bool] = True

    reason: str
    more: bool = False
    direction: Direction | None = None
    written: str | None = None
    others: tuple[str, ...] = ()
    language: str = ""
    language_conf: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        replace(self, "language_conf", finite_or(self.language_conf, None))

    @property
    def shown(self) -> str:
        """What people are to read."""
        return self.text if self.written is None else self.written


class Vad(Message, kw_only=True, frozen=True, tag="vad"):
    """Speech begins or ends at ``sample``. ``event``: start, end. ``prob``: the detector's, NaN is 0."""

    event: str
    utt: int = 0
    prob: float = 0.0

    def __post_init__(self) -> None:
        replace(self, "prob", finite_or(self.prob, 0.0))


class Level(Message, kw_only=True, frozen=True, tag="level"):
    """Loudness of the stretch before ``sample``: dBFS per device channel, at least ``spec.FLOOR_DB``.

    ``faults``: what is wrong with channels, such as ``channel 2 is silent``.
    """

    rms_db: tuple[float, ...]
    peak_db: tuple[float, ...]
    vad_prob: float = 0.0
    clipped: bool = False
    faults: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        replace(self, "rms_db", tuple(decibel(value) for value in self.rms_db))
        replace(self, "peak_db", tuple(decibel(value) for value in self.peak_db))
        replace(self, "vad_prob", finite_or(self.vad_prob, 0.0))

    @classmethod
    def of(cls, source: str, reading: LevelReading) -> Level:
        """A worker's reading as a message."""
        return cls(
            source=source,
            sample=reading.sample,
            rms_db=reading.rms_db,
            peak_db=reading.peak_db,
            vad_prob=reading.vad_prob,
            clipped=reading.clipped,
            faults=reading.faults,
        )


class Doa(Message, kw_only=True, frozen=True, tag="doa"):
    """Where a voice comes from, while it speaks: degrees counter-clockwise from +x in the room, and above the
    array's plane. ``track``: the number of the voice; the same as long as it is followed. ``zone``: the
    configured sector it lies in, empty for none."""

    azimuth_deg: float
    elevation_deg: float | None = None
    conf: float | None = None
    track: int = 0
    zone: str = ""

    def __post_init__(self) -> None:
        require_finite(self, "azimuth_deg")
        replace(self, "elevation_deg", finite_or(self.elevation_deg, None))
        replace(self, "conf", finite_or(self.conf, None))


class Wake(Message, kw_only=True, frozen=True, tag="wake"):
    """A wake word was heard; ``start`` and ``end`` are seconds of the source clock."""

    word: str
    start: float
    end: float
    conf: float | None = None

    def __post_init__(self) -> None:
        require_finite(self, "start", "end")
        replace(self, "conf", finite_or(self.conf, None))


class Backend(msgspec.Struct, frozen=True):
    """Which implementation a stage runs on, and why that one."""

    name: str
    reason: str


class State(Message, kw_only=True, frozen=True, tag="state"):
    """How a source is. Sent on every change, to every new subscriber, and repeated now and then.

    ``status``: ``opening`` (the device is being opened for the first time), ``listening``, ``muted``,
    ``lost`` (the device is away, reopening is tried), ``restarting`` (a worker died and comes back),
    ``failed`` (given up until the configuration changes), ``ended`` (a file or pipe is through),
    ``stopped`` (the daemon shuts down). ``reason``: one line for people where it is not as wished.
    ``rate_hz``, ``channels``, ``format``: what the device gives. ``backends``: by stage.
    """

    status: str
    reason: str = ""
    device: str = ""
    rate_hz: int = 0
    channels: int = 0
    format: str = ""
    muted: bool = False
    model: str = ""
    backends: dict[str, Backend] = {}


class Health(Message, kw_only=True, frozen=True, tag="health"):
    """A condition worth telling. ``code`` is stable, for machines; ``severity``: info, warning, error."""

    JOURNALLED: ClassVar[bool] = True

    code: str
    severity: str
    message: str
    details: dict[str, Any] = {}


class Device(Message, kw_only=True, frozen=True, tag="device"):
    """Something happened to the audio. ``event``: ``opened``, ``lost``, ``gap`` (``frames`` from ``sample``
    on never existed), ``overrun`` (``frames`` were lost by the device), ``channels`` (what is wrong with them
    has changed: ``reason`` names it, and is empty when all is well again), ``ended``."""

    JOURNALLED: ClassVar[bool] = True

    event: str
    device: str = ""
    frames: int = 0
    reason: str = ""


AnyMessage: TypeAlias = AsrPartial | AsrFinal | Vad | Level | Doa | Wake | State | Health | Device
JOURNALLED_TYPES = ("asr.final", "device", "health")


def _plain(value: object) -> object:
    """What JSON does not know: numpy's scalars are numbers, anything else in ``details`` is its text."""
    item = getattr(value, "item", None)
    return item() if callable(item) else str(value)


_encoder = msgspec.json.Encoder(enc_hook=_plain)
_decoder = msgspec.json.Decoder(AnyMessage)


def encode(message: Message) -> tuple[bytes, bytes]:
    """The two frames: topic and UTF-8 JSON."""
    return message.topic.encode(), _encoder.encode(message)


def decode(data: bytes) -> AnyMessage:
    """A message from its JSON. Raises PublishError when it is not one of a known type."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise PublishError(f"not a cosyd message: {error}") from error


def from_object(plain: object) -> AnyMessage:
    """A message from its parsed JSON (as a replay gives it). Raises PublishError like ``decode``."""
    try:
        message: AnyMessage = msgspec.convert(plain, AnyMessage)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise PublishError(f"not a cosyd message: {error}") from error
    return message


def matches(topic: str, prefixes: tuple[str, ...]) -> bool:
    """Whether a subscription to ``prefixes`` gets ``topic``; the empty prefix gets everything."""
    return topic.startswith(prefixes)
