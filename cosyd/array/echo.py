"""Echo cancellation: what the device plays, taken out of what it hears.

Reference and microphones are aligned by correlation, a Kalman filter learns the echo path, what it leaves is
suppressed. A change of the playback's delay moves the alignment, not the filter, so that it need not learn
anew; a playback clock of its own is followed by reading the reference between samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosyd.array.echo_delay import WINDOW_S, DelayEstimate, DelayEstimator
from cosyd.array.echo_drift import DriftTracker
from cosyd.array.echo_filter import Complex, KalmanEchoFilter, Real
from cosyd.array.echo_reference import ReferenceLine
from cosyd.array.echo_residual import ResidualSuppressor
from cosyd.array.echo_start import refined
from cosyd.spec import FRAME

BLOCK = 2 * FRAME.hop  # 16 ms: half the cost of 8 ms, and the filter converges alike
_HEAD = 32  # samples of filter before the direct path: 2 ms for what comes early
_POOR_DB = 3.0  # echo return loss enhancement below which there is nothing to lose
_SURE = 20.0  # clarity of a correlation's peak on which the alignment moves
_GOOD_DB = 10.0  # at which the filter is worth keeping
_AGREE = 2  # samples by which two looks may differ and still mean the same delay
_BETTER = 0.5  # share of the error's power that another alignment must leave to be taken
_LOUD = 1e-8  # mean square below which nothing counts as played: -80 dBFS
_STRETCH = 12_288  # samples that are learnt from at once: with a path of 256 ms, a transform of 16 384
_REFINEMENTS = (
    16  # that follow one another: where 4 s have not helped, what is left is no echo of a linear path
)
_ENOUGH_DB = 25.0  # echo return loss enhancement that the filter gets on from by itself
_TAKEN = 0.5  # most of the error's power that a refined path may leave: less gain is what is no echo, fitted
_NEWS = 15e-6  # change of the pace that the filter does not follow by itself
_ERLE_S = 0.3  # smoothing of the powers that ``erle_db`` compares


@dataclass(frozen=True)
class EchoState:
    """``delay``: samples by which the reference is read late; ``drift_ppm``: its growth; ``moves``: jumps of
    it; ``erle_db``: how much weaker the error is than the microphone while something is played."""

    delay: float
    drift_ppm: float
    moves: int
    erle_db: float


class EchoCanceller:
    """``mics`` microphones and ``references`` played channels of one stream, an ``ArrayStep``.

    ``tail_ms``: length of echo path that is learnt. ``longest_delay_ms``: from reference to echo.
    ``suppress_db``: most that is taken from residual echo while nobody speaks, negative; 0 leaves the linear
    filter alone.
    """

    def __init__(
        self,
        mics: int,
        references: int = 1,
        *,
        tail_ms: int = 256,
        longest_delay_ms: int = 1_000,
        suppress_db: float = -30.0,
        rate_hz: int = FRAME.rate_hz,
    ) -> None:
        partitions = -(-tail_ms * rate_hz // 1000 // BLOCK)
        longest = longest_delay_ms * rate_hz // 1000
        self._mics = mics
        self._filter = KalmanEchoFilter(mics, references, BLOCK, partitions, rate_hz)
        self._history = (partitions + 1) * BLOCK
        self._window = round(WINDOW_S * rate_hz)
        self._line = ReferenceLine(references, longest + self._history + _STRETCH + 2 * BLOCK)
        self._heard = ReferenceLine(mics, _STRETCH)
        self._taps = partitions * BLOCK
        self._delays = DelayEstimator(rate_hz, longest)
        self._drift = DriftTracker()
        self._suppressor = (
            ResidualSuppressor(mics, FRAME.hop, rate_hz, suppress_db) if suppress_db < 0 else None
        )
        self._keep = float(np.exp(-BLOCK / (_ERLE_S * rate_hz)))
        self._longest = longest
        self._pending = np.zeros((mics + references, 0), np.float32)
        self._ready = np.zeros((mics, BLOCK - FRAME.hop), np.float32)
        self.reset()

    @property
    def delay(self) -> int:
        """Samples by which the output trails the input: filling a block, and the suppressor's overlap."""
        return BLOCK - FRAME.hop + (FRAME.hop if self._suppressor else 0)

    @property
    def state(self) -> EchoState:
        erle = 10 * np.log10(max(self._mic_power, 1e-20) / max(self._error_power, 1e-20))
        return EchoState(self._offset, self._drift.ppm, self._moves, float(erle))

    def reset(self) -> None:
        self._filter.reset()
        self._line.reset()
        self._heard.reset()
        self._delays.reset()
        self._drift.reset()
        if self._suppressor:
            self._suppressor.reset()
        self._offset = 0.0
        self._seen: int | None = None  # delay of the last look
        self._good: Complex | None = None  # weights when they last did their work
        self._moves = 0
        self._settle(0)
        self._pace = 0.0  # skew at which the filter has begun to learn
        self._learned = False  # from what was heard before the delay was known
        self._mic_power = self._error_power = 0.0
        self._pending = self._pending[:, :0]
        self._ready = np.zeros((self._mics, BLOCK - FRAME.hop), np.float32)

    def process(self, block: Real) -> Real:
        """[mics + references, n] -> [mics, n]; n is a whole number of hops."""
        self._pending = np.concatenate([self._pending, block], axis=1)
        done = [self._ready]
        while self._pending.shape[1] >= BLOCK:
            done.append(self._cancel(self._pending[:, :BLOCK]))
            self._pending = self._pending[:, BLOCK:]
        ready = np.concatenate(done, axis=1)
        n = block.shape[1]
        self._ready = ready[:, n:]
        return ready[:, :n]

    def _cancel(self, block: Real) -> Real:
        mic, played = block[: self._mics], block[self._mics :]
        self._line.write(played)
        self._heard.write(mic)
        if (estimate := self._delays.accept(mic[0], played.mean(axis=0))) is not None:
            self._follow(estimate)
            self._align(estimate)
            self._refine_from_here()
        if self._turn < self._mics:
            self._refine(self._turn)
            self._turn += 1
        reference = self._read_reference()
        error, echo = self._filter.process(mic, reference)
        active = float(np.mean(reference * reference)) > _LOUD
        if active:
            self._mic_power += (1 - self._keep) * (float(np.mean(mic * mic)) - self._mic_power)
            self._error_power += (1 - self._keep) * (float(np.mean(error * error)) - self._error_power)
        return self._suppress(error, echo)

    def _read_reference(self) -> Real:
        """The reference of this block, as late as the alignment says and at the pace of the microphones.

        At either end of the line there is no room to follow a drift.
        """
        reference = self._played(0, BLOCK)
        self._offset += self._skew * BLOCK
        return reference

    @property
    def _skew(self) -> float:
        skew = self._drift.skew
        return skew if 0 <= self._offset + skew * BLOCK <= self._longest else 0.0

    def _played(self, first: int, count: int, later: int = 0) -> Real:
        """What was played for so many samples of the microphones, ``first`` after the present block's first.

        ``later``: samples by which to read it later than the alignment says.
        """
        ratio = 1 - self._skew
        start = self._line.written - BLOCK - self._offset - later
        return self._line.read(start + ratio * first, count, ratio)

    def _suppress(self, error: Real, echo: Real) -> Real:
        if self._suppressor is None:
            return error
        # The filter's uncertainty is a power in rectangular blocks of BLOCK; the frames are Hann-windowed and
        # twice a hop long: half as many bins, half the energy.
        uncertainty = 0.5 * self._filter.uncertainty.mean(axis=0)[::2]
        return self._suppressor.process(error, echo, uncertainty)

    # --- alignment ---

    def _follow(self, estimate: DelayEstimate) -> None:
        """Go at the pace of the playback; where that is news, what was learnt at another one is blurred."""
        if estimate.exact is None:
            return
        self._drift.accept(self._line.written, estimate.exact)
        if abs(self._drift.skew - self._pace) > _NEWS:
            self._pace = self._drift.skew
            if self._learned:
                self._learn()

    def _align(self, estimate: DelayEstimate) -> None:
        """Move to where the echo is, when two looks agree and it pays."""
        confirmed = self._seen is not None and abs(estimate.delay - self._seen) <= _AGREE
        self._seen = estimate.delay
        if self.state.erle_db >= _GOOD_DB:  # the alignment is beyond doubt
            self._good = self._filter.weights.copy()
            return
        if not confirmed or estimate.clarity < _SURE:
            return
        lag = estimate.delay - round(self._offset)
        if self._good is not None and (jump := self._jump(self._good, lag)):
            self._filter.weights = self._good.copy()
            self._move(self._offset + jump)
        elif not 0 <= lag <= 2 * _HEAD and (self._good is None or self.state.erle_db < _POOR_DB):
            self._good = None
            self._move(estimate.delay - _HEAD)
            self._learn()
        elif self._good is None and not self._learned:
            self._learn()

    def _learn(self) -> None:
        """Begin anew with what was just heard, at the present delay, and how loud the echo in it is."""
        self._learned = True
        self._settle(self._window)
        count = self._window // BLOCK * BLOCK
        first = BLOCK - count
        heard, played = self._lately(count), self._played(first - self._taps, self._taps + count)
        gain = _gain(heard, played)
        self._filter.forget(gain)
        nothing = np.zeros((self._mics, len(played), self._taps), np.float32)
        paths, _ = refined(nothing, heard, played, self._filter.expected(gain))
        self._filter.begin(paths)
        self._filter.replay(self._played(first - self._history, self._history))
        for at in range(0, count - BLOCK, BLOCK):  # the last block's turn is now
            beside = slice(self._taps + at, self._taps + at + BLOCK)
            self._filter.process(heard[:, at : at + BLOCK], played[:, beside])

    def _settle(self, ago: int) -> None:
        """The alignment has changed, and what was heard so many samples ago already tells of it."""
        self._settled, self._refinements, self._turn = self._line.written - ago, 0, self._mics

    def _refine_from_here(self) -> None:
        """While there is much to learn, what was lately heard is learnt from all at once.

        One microphone a block, as it takes long.
        """
        if self._learned and self._refinements < _REFINEMENTS and self.state.erle_db < _ENOUGH_DB:
            self._refinements += 1
            self._turn = 0

    def _refine(self, mic: int) -> None:
        count = min(_STRETCH, self._line.written - self._settled)
        heard, played = (
            self._lately(count)[mic, None],
            self._played(BLOCK - count - self._taps, self._taps + count),
        )
        paths = self._filter.impulses()[mic, None]
        better, left = refined(paths, heard, played, self._filter.expected(_gain(heard, played)))
        if left < _TAKEN:
            self._filter.sharpen(mic, better[0], left)

    def _lately(self, count: int) -> Real:
        """What the microphones have heard last."""
        return self._heard.read(self._heard.written - count, count)

    def _jump(self, good: Complex, lag: int) -> int:
        """By how much the delay has changed, judging by the peak at ``lag``; 0 where moving does not pay.

        ``good``: the filter when it last did its work. It may have begun to learn something else since.
        """
        path = self._filter.impulses(good)[0].sum(axis=0)
        jump = lag - int(np.abs(path).argmax())
        return jump if jump and self._pays(path, jump) else 0

    def _pays(self, path: Real, jump: int) -> bool:
        """Whether there would lately have been much less error, had the reference been read that much later.

        ``path``: from the sum of the references to the first microphone.
        """
        if not 0 <= self._offset + jump <= self._longest:
            return False
        heard = self._lately(self._window)[0]
        count = len(heard) + len(path) - 1
        size = 1 << (count - 1).bit_length()

        def left(later: int) -> float:
            played = self._played(BLOCK - count, count, later).sum(axis=0)
            echo = np.fft.irfft(np.fft.rfft(played, size) * np.fft.rfft(path, size), size)
            error = heard - echo[len(path) - 1 : count]
            return float(np.square(error[len(error) // 2 :]).mean())  # the jump lies before this half

        return left(jump) < _BETTER * left(0)

    def _move(self, offset: float) -> None:
        """Read the reference that late from now on; the filter's past is read again accordingly."""
        self._offset = float(min(max(round(offset), 0), self._longest))
        self._moves += 1
        self._settle(self._window // 2)
        self._filter.replay(self._played(-self._history, self._history))


def _gain(heard: Real, played: Real) -> float:
    """Power gain from what was played to what was heard of it."""
    return float(np.square(heard).mean()) / max(float(np.square(played).sum(axis=0).mean()), _LOUD)
