"""What another source captures, read beside the frames of a microphone array: the reference of its echo.

Where no channel of the array carries what is played, the monitor of the playback device does, as a source of
its own with a clock of its own. What joins the two is when their frames were captured: the rings tell that of
every frame, by CLOCK_MONOTONIC. A frame of the array is given what was played at its time and ``lead_ms``
later, so that the echo comes after its reference also where the monitor's times are late.

Times of capture jitter by milliseconds. They align the two once; from then on samples are read one after the
other, at a pace that a slow loop keeps (``Pace``). What plays need not be there: then there is silence beside
the frames, the canceller has nothing to take off, and ``news`` says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from cosyd.array.echo_reference import ReferenceLine
from cosyd.config.schema import ArrayConfig
from cosyd.errors import RingError
from cosyd.frontend.pcm import Frames, to_float
from cosyd.frontend.resample import Resampler
from cosyd.frontend.stage import Samples
from cosyd.ring import Block, RingReader, WriterState
from cosyd.spec import FRAME, AudioSpec, SampleFormat
from cosyd.types import Health

PATIENCE_S = 0.1  # that frames wait for what was played at their time; a monitor's blocks are 10 to 25 ms
RESTS_S = 1.0  # without (or again with) a reference until that is told
LOOK_EVERY_S = 0.2  # how often to look for a ring that is not there
_LINE_S = 1.0  # kept of what was played: several times what is read at once
_READ_S = 0.25
_AROUND = 16  # samples on either side that reading between samples needs
_SECOND = 1_000_000_000


class Pace:
    """How much faster than nominal to read, ``skew``, so that two clocks stay together.

    A second-order loop that is critically damped, with a minute's time: crystals drift by 100 ppm at most and
    do not change, jitter has averaged out by then. It holds the difference that there was at first; which
    one that is does not matter.
    """

    LOOK_S = 1.0  # over which differences are averaged
    SETTLE_LOOKS = 5  # of which what is held is the mean
    JUMP_S = 0.02  # off what is held: not drift but a restart, to be aligned anew
    TIME_S = 60.0
    MOST = 300e-6

    def __init__(self) -> None:
        self._drift = 0.0
        self.restart()

    def restart(self) -> None:
        """Aligned anew. What is known of the clocks stays."""
        self.skew = self._drift
        self._held = 0.0
        self._looks = 0
        self._sum = self._heard_s = 0.0

    def accept(self, error_s: float, seconds: float) -> bool:
        """``error_s``: how much later should be read, of ``seconds`` of audio. True: align anew."""
        self._sum += error_s * seconds
        self._heard_s += seconds
        if self._heard_s < self.LOOK_S:
            return False
        mean, span = self._sum / self._heard_s, self._heard_s
        self._sum = self._heard_s = 0.0
        if self._looks < self.SETTLE_LOOKS:
            self._held += (mean - self._held) / (self._looks + 1)
            self._looks += 1
        off = mean - self._held
        if self._looks == self.SETTLE_LOOKS:
            drift = self._drift + off * span / self.TIME_S**2
            self._drift = min(max(drift, -self.MOST), self.MOST)
            self.skew = min(max(self._drift + 2 * off / self.TIME_S, -self.MOST), self.MOST)
        return abs(off) > self.JUMP_S


class Reference:
    """For one thread. ``find``: path of the other source's ring, None while there is no such source.

    ``rate_hz``: of the frames that it is to stand beside.
    """

    def __init__(self, array: ArrayConfig, find: Callable[[], Path | None], rate_hz: int) -> None:
        self._name = array.reference_source
        self._channels = array.reference_channels
        self._lead_ns = array.reference_lead_ms * 1_000_000
        self._find = find
        self._rate_hz = rate_hz
        self._line_hz = min(FRAME.rate_hz, rate_hz)  # nobody hears more
        self.rows = len(self._channels) if self._channels else 1
        self._line = ReferenceLine(self.rows, round(_LINE_S * self._line_hz))
        self._reader: RingReader | None = None
        self._resamplers: list[Resampler] = []
        self._origin: int | None = None  # clock of the other source at which the line begins
        self._at: float | None = None  # place in the line of the next frame
        self._pace = Pace()
        self._next_look = 0.0
        self._why = ""
        self._with_s = self._without_s = 0.0
        self.rests = False
        self._told = False

    # --- what the pipeline asks ---

    def widened(self, spec: AudioSpec, array: ArrayConfig) -> tuple[AudioSpec, ArrayConfig]:
        """The shape of frames with the reference beside them, and the array that they are of."""
        own = tuple(range(spec.channels, spec.channels + self.rows))
        changes = {"reference_channels": own, "reference_source": None}
        wide = replace(spec, channels=spec.channels + self.rows, format=SampleFormat.F32)
        return wide, array.model_copy(update=changes)

    def ready(self, t_ns: int) -> bool:
        """Whether frames up to this time have waited long enough, or need not wait."""
        patience_s = 0.0 if self.rests else self.lead_s + PATIENCE_S
        return self._reaches(t_ns) or time.monotonic_ns() - t_ns >= patience_s * _SECOND

    @property
    def lead_s(self) -> float:
        """How long frames wait as a rule."""
        return 0.0 if self.rests else self._lead_ns / _SECOND

    def covered(self, t_ns: int) -> int:
        """How many frames from this time on have their reference already."""
        start = self._place(t_ns)
        if start is None:
            return 0
        return int((self._line.written - _AROUND - start) * self._rate_hz / self._line_hz)

    def beside(self, frames: Frames, t_ns: int) -> Samples:
        """Frames [n, channels], the first captured at ``t_ns`` -> float32 [n, channels + rows]."""
        played = self._read(t_ns, len(frames))
        return np.concatenate((to_float(frames), played.T), axis=1)

    def restart(self) -> None:
        """The next frames do not follow those before."""
        self._at = None
        self._pace.restart()

    def news(self) -> Health | None:
        """Whether cancellation rests or works again, once each."""
        if self.rests == self._told:
            return None
        self._told = self.rests
        details: dict[str, object] = {"reference": self._name}
        if self.rests:
            why = self._why or "nothing comes from it"
            text = f"echo cancellation rests: reference source {self._name!r}: {why}"
            return Health("echo_reference_lost", "warning", text, details)
        text = f"echo cancellation works: reference source {self._name!r} is there"
        return Health("echo_reference_back", "info", text, details)

    def close(self) -> None:
        """Let go of the other source's ring. May be called again."""
        if self._reader is not None:
            self._reader.close()
        self._reader = None
        self._origin = None
        self.restart()

    # --- reading ---

    def _read(self, t_ns: int, count: int) -> Samples:
        seconds = count / self._rate_hz
        there = self._reaches(t_ns + round(seconds * _SECOND))
        start = self._place(t_ns)
        self._count(seconds, there)
        if start is None:
            return np.zeros((self.rows, count), np.float32)
        if self._at is None or (there and self._pace.accept((start - self._at) / self._line_hz, seconds)):
            self.restart()
            self._at = start
        step = self._line_hz / self._rate_hz * (1 + self._pace.skew)
        played = self._line.read(self._at, count, step)
        self._at += count * step
        return played

    def _count(self, seconds: float, there: bool) -> None:
        self._with_s = self._with_s + seconds if there else 0.0
        self._without_s = 0.0 if there else self._without_s + seconds
        if self._without_s >= RESTS_S:
            self.rests = True
        elif self._with_s >= RESTS_S:
            self.rests = False

    def _place(self, t_ns: int) -> float | None:
        """Where in the line that is which was played at ``t_ns`` and the lead later."""
        if self._reader is None or self._origin is None:
            return None
        return (self._index(self._reader, t_ns) - self._origin) * self._line_hz / self._reader.spec.rate_hz

    def _index(self, reader: RingReader, t_ns: int) -> float:
        """The other source's clock at this time."""
        newest = reader.write_index
        return newest + (t_ns + self._lead_ns - reader.time_ns(newest)) * reader.spec.rate_hz / _SECOND

    def _reaches(self, t_ns: int) -> bool:
        """Read as far as is needed for frames up to ``t_ns``; whether it is all there."""
        reader = self._attached(t_ns)
        if reader is None:
            return False
        while (place := self._place(t_ns)) is None or place + _AROUND > self._line.written:
            block = reader.read(reader.spec.frames(_READ_S))
            if block is None:
                return False
            self._take(reader, block)
        return True

    def _take(self, reader: RingReader, block: Block) -> None:
        """Into the line; a short gap as silence, so that what follows stays where it is."""
        rate_hz = reader.spec.rate_hz
        if self._origin is None or block.lost or block.gap > _LINE_S * rate_hz:
            self._begin(block.index)
        elif block.gap:
            self._write(np.zeros((self.rows, block.gap), np.float32))
        sound = self._sound(block.frames)
        if reader.intact(block):
            self._write(sound)
        else:
            self._origin = None

    def _begin(self, index: int) -> None:
        self._origin = index
        self._line.reset()
        for resampler in self._resamplers:
            resampler.reset()
        self.restart()

    def _sound(self, frames: Frames) -> Samples:
        """[n, channels] -> [rows, n]; the mean of all channels where none are named."""
        sound = to_float(frames).T
        rows = sound[list(self._channels)] if self._channels else sound.mean(axis=0, keepdims=True)
        return np.ascontiguousarray(np.nan_to_num(rows, posinf=0.0, neginf=0.0), np.float32)

    def _write(self, sound: Samples) -> None:
        rows = [_resampled(resampler, row) for resampler, row in zip(self._resamplers, sound, strict=True)]
        if len(rows[0]):
            self._line.write(np.stack(rows))

    # --- the ring ---

    def _attached(self, t_ns: int) -> RingReader | None:
        """The reader, looked for and looked after now and then."""
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + LOOK_EVERY_S
            if self._reader is not None and self._reader.writer in (WriterState.CLOSED, WriterState.REPLACED):
                self._why = "it has ended"
                self.close()
            if self._reader is None:
                self._attach(t_ns)
        return self._reader

    def _attach(self, t_ns: int) -> None:
        """At what was played at that time."""
        path = self._find()
        if path is None:
            self._why = "there is no such source"
            return
        try:
            with RingReader.attach(path) as reader:
                if reader.writer is WriterState.CLOSED or not self._fits(reader.spec):
                    return
                before = self._index(reader, t_ns) - reader.spec.frames(_READ_S)
            self._reader = RingReader.attach(path, position=max(0, round(before)))
        except RingError as error:
            self._why = str(error)
            return
        self._why = ""
        rate_hz = self._reader.spec.rate_hz
        self._resamplers = [Resampler(rate_hz, self._line_hz, FRAME.hop) for _ in range(self.rows)]
        self._pace = Pace()

    def _fits(self, spec: AudioSpec) -> bool:
        beyond = [channel for channel in self._channels or () if channel >= spec.channels]
        if beyond:
            has = f"it has channels 0 to {spec.channels - 1}"
            self._why = f"{has}; correct array.reference_channels, which names {beyond[0]}"
        return not beyond


def _resampled(resampler: Resampler, sound: Samples) -> Samples:
    """What comes out for this, in whole hops."""
    resampler.push(sound)
    hops = []
    while (hop := resampler.take()) is not None:
        hops.append(hop)
    return np.concatenate(hops) if hops else np.zeros(0, np.float32)


def needs_reference(array: ArrayConfig | None) -> bool:
    """Whether another source is the reference of this array's echo."""
    return array is not None and array.reference_source is not None and array.echo != "off"
