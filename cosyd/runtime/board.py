"""What the daemon knows of each source, and the messages that follow from what happens to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from cosyd.config.schema import SourceConfig
from cosyd.publish import messages
from cosyd.runtime.ipc import ChannelsJudged, GapSeen, Heard, Located, Recognized
from cosyd.runtime.recognised import doa_message, text_message, vad_message
from cosyd.runtime.supervision import SupervisedWorker, WorkerState, WorkerStatistics
from cosyd.types import (
    Backend,
    CaptureEvent,
    CaptureProgress,
    Checkpoint,
    DeviceLost,
    DeviceOpened,
    GapRecorded,
    SourceEnded,
    SpeechEnded,
    SpeechStarted,
)

OVERRUN_EVERY_S = 10.0  # least pause between two messages of overruns of a source, as in the log

Publish = Callable[[messages.Message], object]


@dataclass(frozen=True)
class Told:
    """The overruns that were published, and when (CLOCK_MONOTONIC seconds)."""

    overruns: int = 0
    lost_frames: int = 0
    at: float = -OVERRUN_EVERY_S


@dataclass
class SourceRecord:
    """One source. ``worker`` captures it; ``checkpoint`` is where a fresh recogniser would take it up."""

    config: SourceConfig
    muted: bool
    worker: SupervisedWorker | None = None
    status: str = "opening"
    reason: str = ""
    opened: DeviceOpened | None = None
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    handed_over: bool = False  # the recogniser was told of it
    ended: bool = False  # capture: nothing follows
    consumed: bool = False  # recogniser: it has read a closed ring to its end
    drained: bool = False  # both: it is over
    overruns: int = 0
    told: Told = field(default_factory=Told)
    sample: int = 0
    drift_ppm: float | None = None
    backends: dict[str, Backend] = field(
        default_factory=dict
    )  # of its stages, where they differ from others'
    vad_prob: float = 0.0
    speech: messages.Vad | None = None  # the newest that was published
    behind_s: float = 0.0
    lost_frames: int = 0
    faults: tuple[str, ...] = ()  # of its channels

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def listening(self) -> bool:
        return self.opened is not None and self.status in ("listening", "muted")


class Board:
    """Turns capture and recognition events into published messages and keeps the records up to date."""

    def __init__(self, publish: Publish, forget: Callable[[str], None], model: str) -> None:
        """``forget``: called with a source's name when its state is no longer worth telling."""
        self._publish = publish
        self._forget = forget
        self.model = model
        self.backends: dict[str, Backend] = {}
        self.records: dict[str, SourceRecord] = {}

    # --- state ---

    def add(self, config: SourceConfig) -> SourceRecord:
        record = SourceRecord(config, config.muted)
        self.records[config.name] = record
        self.announce(record)
        return record

    def remove(self, record: SourceRecord) -> None:
        """The source is no longer configured: say so once, then forget it."""
        self.enter(record, "stopped", "removed from the configuration")
        del self.records[record.name]
        self._forget(record.name)

    def enter(self, record: SourceRecord, status: str, reason: str = "") -> None:
        """Change the status of a source and publish it; no message without a change."""
        if status == "listening" and record.muted:
            status = "muted"
        if (record.status, record.reason) == (status, reason):
            return
        record.status, record.reason = status, reason
        self.announce(record)

    def announce(self, record: SourceRecord) -> None:
        """Publish the state of a source as it is."""
        opened = record.opened
        self._publish(
            messages.State(
                source=record.name,
                sample=record.sample,
                status=record.status,
                reason=record.reason,
                device=opened.device if opened else "",
                rate_hz=opened.rate_hz if opened else 0,
                channels=opened.channels if opened else 0,
                format=opened.format if opened else "",
                muted=record.muted,
                model=self.model,
                backends={
                    name: messages.Backend(b.name, b.reason)
                    for name, b in {**self.backends, **record.backends}.items()
                },
            )
        )

    def runs_on(self, record: SourceRecord, backends: dict[str, Backend]) -> None:
        """The stages of this source run on other backends than was told: tell it."""
        if backends and backends != record.backends:
            known = {name: self.backends.get(name) for name in backends}
            changed = backends != (record.backends or known)
            record.backends = backends
            if changed:
                self.announce(record)

    def mute(self, record: SourceRecord, muted: bool) -> None:
        record.muted = muted
        if record.status in ("listening", "muted"):
            self.enter(record, "listening")

    # --- capture ---

    def captured(self, record: SourceRecord, event: CaptureEvent) -> None:
        """A capture worker reports."""
        record.sample = max(record.sample, event.sample)
        if isinstance(event, CaptureProgress):
            self._progressed(record, event)
        elif isinstance(event, DeviceOpened):
            record.opened = event
            self._device(record, "opened", event.sample)
            self.enter(record, "listening")
        elif isinstance(event, DeviceLost):
            self._device(record, "lost", event.sample, reason=event.reason)
            self.enter(record, "lost", event.reason)
        elif isinstance(event, GapRecorded):
            self._device(record, "gap", event.sample, frames=event.frames)
        elif isinstance(event, SourceEnded):
            record.ended = True

    def settle_end(self, record: SourceRecord) -> None:
        """It is over when capture has said so and the recogniser is done with it; either may come first."""
        if not record.ended or (record.handed_over and not record.consumed):
            return
        if not record.drained:  # else it is said again, by the successor of a killed worker
            record.drained = True
            self._device(record, "ended", record.sample)
        self.enter(record, "ended")

    def _progressed(self, record: SourceRecord, progress: CaptureProgress) -> None:
        record.drift_ppm = progress.drift_ppm
        record.overruns = progress.overruns
        told = record.told
        if progress.overruns < told.overruns:  # a new ring counts from zero
            record.told = told = Told()
        now = time.monotonic()
        if progress.overruns > told.overruns and now >= told.at + OVERRUN_EVERY_S:
            frames = progress.lost_frames - told.lost_frames
            record.told = Told(progress.overruns, progress.lost_frames, now)
            self._device(record, "overrun", progress.sample, frames=frames)

    def _device(
        self, record: SourceRecord, event: str, sample: int, *, frames: int = 0, reason: str = ""
    ) -> None:
        device = record.opened.device if record.opened else ""
        self._publish(
            messages.Device(
                source=record.name, sample=sample, event=event, device=device, frames=frames, reason=reason
            )
        )

    def worker_state(self, record: SourceRecord, state: WorkerState) -> None:
        """The capture worker of a source died, comes back, or gave up."""
        if state is WorkerState.WAITING:
            self.enter(record, "restarting", "the capture worker died and is started again")
        elif state is WorkerState.FAILED and record.worker and record.worker.failure:
            self.enter(record, "failed", record.worker.failure.message)
            self.health(record.name, "source_failed", "error", record.worker.failure.message)

    # --- recognition ---

    def recogniser_died(self, record: SourceRecord) -> None:
        if record.status == "listening":
            self.enter(record, "restarting", "the recogniser died and is started again")

    def recogniser_is_back(self, record: SourceRecord) -> None:
        """Its backends may be others than before: every state is published."""
        if record.status == "restarting" and record.worker and record.worker.state is WorkerState.RUNNING:
            self.enter(record, "listening")
        else:
            self.announce(record)

    def recognised(self, record: SourceRecord, message: Recognized) -> float | None:
        """Publish what was recognised. The latency in seconds of a partial or final, else None."""
        event = message.event
        record.checkpoint = message.checkpoint
        if isinstance(event, SpeechStarted | SpeechEnded):
            self._speech(record, event, message.vad_prob)
            return None
        if not event.text:
            return None
        latency_s = max(0.0, (time.monotonic_ns() - message.latency_base_ns) / 1e9)
        self._publish(text_message(event, message, self.model, latency_s))
        return latency_s

    def _speech(self, record: SourceRecord, event: SpeechStarted | SpeechEnded, prob: float) -> None:
        """Starts and ends take turns and never go back in time: a recogniser that was killed is followed by
        one that hears the same audio again."""
        told = vad_message(record.name, event, prob)
        before = record.speech
        if before is None or (told.event != before.event and told.sample >= before.sample):
            record.speech = told
            self._publish(told)

    def located(self, message: Located) -> None:
        for voice in message.voices:
            self._publish(doa_message(message.source, message.sample, voice))

    def heard(self, message: Heard) -> None:
        self._publish(messages.Level.of(message.source, message.level))

    def judged(self, record: SourceRecord, message: ChannelsJudged) -> None:
        """What is wrong with the channels, and whether that is news."""
        if message.faults == record.faults:
            return
        record.faults = message.faults
        self._device(record, "channels", message.sample, reason="; ".join(message.faults))

    def saw_gap(self, record: SourceRecord, message: GapSeen) -> None:
        """The recogniser was lapped; gaps themselves were published when capture recorded them."""
        if message.lost:
            self._device(
                record,
                "overrun",
                message.sample,
                frames=message.lost,
                reason="the recogniser was too slow and the ring ran over",
            )

    # --- health ---

    def worker_died(self, source: str, worker: WorkerStatistics) -> None:
        """``source``: whose worker it is, or the daemon."""
        code, severity = ("crash_loop", "error") if worker.crash_loop else ("worker_restarted", "warning")
        text = f"{worker.name}: {worker.last_error}; starting it again"
        self.health(source, code, severity, text, worker=worker.name, restarts=worker.restarts)

    def health(self, source: str, code: str, severity: str, text: str, **details: object) -> None:
        self._publish(
            messages.Health(source=source, code=code, severity=severity, message=text, details=details)
        )
