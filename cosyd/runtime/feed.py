"""One source as the recogniser sees it: its ring, its place in the front end, its listener."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from cosyd.array.record import VoiceRecord
from cosyd.asr.recognition import SourceListener
from cosyd.config.schema import ArrayConfig, FrontendConfig, SourceConfig
from cosyd.errors import RingNotFound
from cosyd.frontend.pcm import Frames
from cosyd.frontend.stage import Samples
from cosyd.ring import Block, RingReader
from cosyd.runtime.asr_input import AsrInput
from cosyd.runtime.channels import ChannelCheck
from cosyd.runtime.level import LevelMeter
from cosyd.runtime.overload import Overload
from cosyd.runtime.reference import Reference, needs_reference
from cosyd.runtime.ring_feed import RingFeed
from cosyd.spec import FRAME, AudioSpec
from cosyd.types import Checkpoint, EndReason, Health, Level

log = logging.getLogger("cosyd.runtime")

ATTACH_EVERY_S = 0.05  # how often to look whether the ring exists; a start waits this long at most
LATE_S = 0.003  # by how much a delivery is usually late; looking too early costs another look
# Looked at together while nobody speaks: a quarter of the awakenings. Three of speech are waited for anyway
# (vad.min_speech_ms), and with the first of them each is looked at: vad.start is 32 ms late at most.
IDLE_BLOCKS = 4
STEADY_BLOCKS = 3  # ... while somebody goes on speaking: nothing of an utterance ends within 64 ms
STEADY_PROB = 0.5  # that a block is speech, and no pause begins with it
LEAP_SHARE = 8  # of the ring given up by who was lapped: at 30 s of ring, 3.75 s until it could happen again
WARM_UP_S = 1.0  # audio before a checkpoint that settles the states of denoiser and VAD; not listened to


class Feed(RingFeed):
    """A source's reader and everything that belongs to it.

    ``listen_from``: blocks before this sample only warm the front end up. ``interrupted``: the next block
    does not follow the one before. ``lost``: the device went away, and what it left is not used up yet.
    ``ring_of``: the ring of another source.
    """

    def __init__(
        self,
        source: SourceConfig,
        ring_path: Path,
        checkpoint: Checkpoint,
        muted: bool,
        level_ms: int,
        ring_of: Callable[[str], Path | None] = lambda name: None,
    ) -> None:
        super().__init__()
        self.source = source
        self.checkpoint = checkpoint
        self.muted = muted
        self.slot = -1
        self.listener: SourceListener | None = None
        self.listen_from = 0
        self.interrupted = False
        self.lost = False
        self.end_reason: EndReason = "end_of_stream"
        self.flushed = False
        self.drained = False
        self.vad_prob = 0.0
        self._steady = False  # somebody speaks, and did so in the newest block
        self.voices: VoiceRecord | None = None  # of a microphone array, while attached
        self.check: ChannelCheck | None = None  # of its channels, while attached
        self.level_meter = LevelMeter(level_ms)
        self.overload = Overload()
        self.reference: Reference | None = None  # of its echo, where another source is that, while attached
        self._ring_of = ring_of
        self._input: AsrInput | None = None
        self.ring_path = ring_path
        self._next_look = 0.0
        self._block = 0  # frames of the device in one block of the front end

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def paced(self) -> bool:
        """Whether audio comes at the pace at which it was spoken; a file may come as fast as it is used."""
        return self.source.type != "file" or self.source.realtime

    @property
    def pending(self) -> int:
        """Utterances that have ended and are not published yet."""
        return self.listener.pending if self.listener else 0

    @property
    def current_checkpoint(self) -> Checkpoint:
        """Where a successor takes up. While muted it is here: what was said is nobody's business."""
        if self.listener is None:
            return self.checkpoint
        checkpoint = self.listener.checkpoint
        if self.muted and not self.pending:
            checkpoint = Checkpoint(self.position, checkpoint.utt)
        return replace(checkpoint, rate_hz=self.spec.rate_hz)

    def unmute(self) -> None:
        """Listen from now on; what is still unread was said while muted."""
        self.muted = False
        if self._reader:
            self.listen_from = self._reader.write_index

    def attach(self) -> bool:
        """Attach to the ring if it exists by now."""
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + ATTACH_EVERY_S
        try:
            self._reader = self._open()
        except RingNotFound:
            return False
        self.flushed = self.drained = False
        self.level_meter = LevelMeter(self.level_meter.period_ms)  # the format may be another
        self._block = self.spec.frames(FRAME.block_ms / 1000)
        if self.source.array is not None:
            self.voices = VoiceRecord(self.source.array.doa_ms, self.spec.rate_hz)
        if (array := self.source.array) is not None and needs_reference(array):
            name = array.reference_source or ""
            self.reference = Reference(array, lambda: self._ring_of(name), self.spec.rate_hz)
        self.check = ChannelCheck(self.source, self.spec)
        self._next_state = 0.0
        return True

    def prepare(self, frontend: FrontendConfig) -> None:
        """What is done to the recogniser's input, and kept of it. Once attached, and when that changes."""
        if self._input is None:
            afar = self.source.type == "file" and not self.source.realtime  # nobody asks what was just now
            self._input = AsrInput(self.ring_path, self.spec.rate_hz, 0 if afar else frontend.tap_s)
        self._input.configure(frontend)

    def input(self, sample: int, audio: Samples) -> Samples:
        """What the recogniser hears of a block [n] of the front end, whose VAD has spoken already."""
        return self._input.process(sample, audio, self.vad_prob) if self._input else audio

    def listened(self) -> None:
        """Blocks that came together have been listened to: who looks at what is kept of them finds them."""
        if self._input:
            self._input.keep()
        if self.listener is not None:
            self._steady = self.vad_prob >= STEADY_PROB and self.listener.checkpoint.opened

    def _open(self) -> RingReader:
        """At the checkpoint; a resumed utterance needs the front end warmed up with what came before it."""
        with RingReader.attach(self.ring_path) as reader:
            spec, leap = reader.spec, reader.capacity // LEAP_SHARE
        wanted = self._wanted(spec)
        self.listen_from = 0
        if wanted is None or not self.checkpoint.opened:
            return RingReader.attach(self.ring_path, position=wanted, leap=leap)
        self.listen_from = wanted
        begin = max(0, wanted - spec.frames(WARM_UP_S))
        return RingReader.attach(self.ring_path, position=begin, leap=leap)

    def _wanted(self, spec: AudioSpec) -> int | None:
        """The checkpoint in the ring's clock: the device may have come back at another rate."""
        sample, rate_hz = self.checkpoint.sample, self.checkpoint.rate_hz
        if sample is None or rate_hz in (0, spec.rate_hz):
            return sample
        return -(-sample * spec.rate_hz // rate_hz)  # rounded up, as capture does

    def close(self) -> None:
        if self._reader:
            self._reader.close()
        for part in (self._input, self.reference):
            if part:
                part.close()
        self._reader = self._input = self.reference = None
        self.listener = None

    @property
    def heard(self) -> tuple[AudioSpec, ArrayConfig | None]:
        """The shape of what ``frames`` gives, and the array that it is of."""
        if self.reference is not None and self.source.array is not None:
            return self.reference.widened(self.spec, self.source.array)
        return self.spec, self.source.array

    @property
    def position(self) -> int:
        return self._reader.position if self._reader else (self.checkpoint.sample or 0)

    @property
    def ready(self) -> bool:
        """Whether reading is worth it: a whole block is there, or no more than there is will come."""
        if self.lost or not self.live:
            return True
        return self.behind >= self._enough and self._reference_ready

    @property
    def _reference_ready(self) -> bool:
        """Whether what was played during the next block has come, or has been waited for."""
        if self.reference is None:
            return True
        return self.reference.ready(self.time_ns(self.position + min(self.behind, self._block)))

    @property
    def _enough(self) -> int:
        """Frames that are worth waking up for: a block, or some while it is quiet or nothing can be due."""
        if self.muted or (self.listener is not None and self.listener.idle):
            return self._block * IDLE_BLOCKS
        return self._block * (STEADY_BLOCKS if self._steady else 1)

    @property
    def due_s(self) -> float | None:
        """How long until enough is there, if the device delivers as it should; None when it is overdue.

        Looking at every delivery, about every 10 ms, would cost more than recognising silence does.
        """
        behind, rate_hz = self.behind, self.spec.rate_hz
        if behind == 0 and time.monotonic() - self.read_at > self._enough / rate_hz + LATE_S:
            return None
        lead_s = self.reference.lead_s if self.reference else 0.0
        return max(0.0, (self._enough - behind) / rate_hz + lead_s) + LATE_S

    def read(self, most_s: float) -> Block | None:
        return self._read(self._most(self.spec.frames(most_s)))

    def _most(self, frames: int) -> int:
        """No more than there is a reference for; where that is less than a block, it is not waited for."""
        if self.reference is None:
            return frames
        return min(frames, max(self._block, self.reference.covered(self.time_ns(self.position))))

    def frames(self, block: Block) -> Frames:
        """What the front end is given of a block: its frames, and the reference beside them."""
        if self.reference is None:
            return block.frames
        return self.reference.beside(block.frames, self.time_ns(block.index))

    def restart(self) -> None:
        """The next frames do not follow those before."""
        self.interrupted = False
        if self.check is not None:
            self.check.restart()
        if self.reference is not None:
            self.reference.restart()

    def changed_faults(self) -> tuple[str, ...] | None:
        """All that is wrong with the channels, one line each, where that has changed since it was asked."""
        if self.check is None or not self.check.take_change():
            return None
        return tuple(fault.message for fault in self.check.faults)

    def news(self) -> Iterator[Health]:
        """What is worth telling of its reading, and was not told yet."""
        if self.paced and (overload := self.overload.check(self.behind_s)) is not None:
            yield overload
        if self.reference is not None and (reference := self.reference.news()) is not None:
            yield reference

    def meter(self, block: Block) -> Level | None:
        """Feed the level meter, which reports every ``level_ms``, and what watches the channels."""
        assert self.check is not None, "not attached"
        self.check.accept(block.frames)
        level = self.level_meter.accept(block.frames, block.index, self.spec, self.vad_prob)
        faults = tuple(fault.message for fault in self.check.faults)
        return replace(level, faults=faults) if level and faults else level
