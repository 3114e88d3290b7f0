"""One stream's way in: device frames -> one channel -> 16 kHz -> blocks, with the source's clock kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from cosyd.frontend.clock import FrameClock
from cosyd.frontend.pcm import Frames, Mixer, to_float
from cosyd.frontend.resample import Resampler
from cosyd.frontend.stage import Samples
from cosyd.spec import FRAME, AudioSpec

if TYPE_CHECKING:
    from cosyd.array.path import ArrayPath

Clocks = NDArray[np.int64]

_PIECE_S = 0.25


class Intake:
    """One stream. Push at most ``piece`` frames at a time and take the blocks between, to bound its buffer.

    ``delay``: by how much the stages that follow trail, in samples at 16 kHz.

    The first block is begun early, so that after the stages' delay blocks begin at exactly time 0, and no
    latency is added by blocks being out of step with the delay. The ``discard`` blocks that then come out
    first lie before time 0 and mean nothing.
    """

    def __init__(
        self,
        spec: AudioSpec,
        channel_map: Sequence[int] | None,
        mix: Literal["first", "mean"],
        delay: int = 0,
    ) -> None:
        lead = -delay % FRAME.block
        self.discard = (delay + lead) // FRAME.block
        self._delay = delay
        self.piece = spec.frames(_PIECE_S)
        self._mixer = Mixer(spec.channels, channel_map, mix)
        self._resampler = Resampler(spec.rate_hz, lead=lead)
        self._clock = FrameClock()
        self._out = -(delay + lead)  # index, at 16 kHz, of the next block once it has passed the stages
        self._lead = lead

    @property
    def nonfinite(self) -> int:
        """Samples so far that were NaN or infinite."""
        return self._mixer.nonfinite

    def restart(self, sample: int | None = None) -> None:
        """Forget the audio; the next frame is at ``sample`` of the source clock (None: push says)."""
        self._resampler.reset()
        self._clock.restart(sample)
        self._out = -(self._delay + self._lead)

    def push(self, frames: Frames, sample: int) -> None:
        """Take frames [n, channels], the first of them at ``sample``, right after the ones before."""
        self._clock.advance(len(frames), sample)
        self._resampler.push(self._mixer(frames))

    def flush(self) -> None:
        """End of the stream: everything received comes out, the last block filled up."""
        self._resampler.finish(self._resampler.expected + self._delay)

    def take(self, most: int) -> tuple[Samples, Clocks]:
        """The next blocks [blocks, block] that there are, at most ``most``, and the source clock of the first
        sample of each when it has passed the stages."""
        blocks = self._resampler.take_blocks(most)
        outputs = self._out + FRAME.block * np.arange(len(blocks))
        self._out += FRAME.block * len(blocks)
        return blocks, self._clock.origin + self._resampler.input_time(outputs)


class ArrayIntake:
    """One stream from a microphone array, with the surface of Intake.

    ``take`` gives blocks of all its rows, [rows, block]; ``path.process`` makes one channel of them, in the
    order of the stream and only when the stages that follow have dealt with the block before: what they make
    of it is what the beam learns from. The path's delay adds to that of the stages.
    """

    def __init__(self, spec: AudioSpec, path: ArrayPath, delay: int = 0) -> None:
        """Raises UnsupportedFormat where the source has not all channels that the array maps."""
        path.geometry.require(spec.channels)
        self.path = path
        total = delay + path.delay
        self._lead = -total % FRAME.block
        self.discard = (total + self._lead) // FRAME.block
        self._delay = total
        self.piece = spec.frames(_PIECE_S)
        self.nonfinite = 0
        self._resamplers = [Resampler(spec.rate_hz, lead=self._lead) for _ in path.channels]
        self._clock = FrameClock()
        self._out = -(total + self._lead)

    def restart(self, sample: int | None = None) -> None:
        """Forget the audio; the next frame is at ``sample`` of the source clock (None: push says)."""
        for resampler in self._resamplers:
            resampler.reset()
        self.path.reset()
        self._clock.restart(sample)
        self._out = -(self._delay + self._lead)

    def push(self, frames: Frames, sample: int) -> None:
        """Take frames [n, channels], the first of them at ``sample``, right after the ones before."""
        self._clock.advance(len(frames), sample)
        for resampler, channel in zip(self._resamplers, self.path.channels, strict=True):
            resampler.push(self._channel(frames, channel))

    def _channel(self, frames: Frames, index: int) -> Samples:
        samples = to_float(frames[:, index])
        if frames.dtype.kind == "f":
            bad = ~np.isfinite(samples)
            self.nonfinite += int(bad.sum())
            samples[bad] = 0
        return samples

    def flush(self) -> None:
        """End of the stream: everything received comes out, the last block filled up."""
        for resampler in self._resamplers:
            resampler.finish(resampler.expected + self._delay)

    def take(self, most: int) -> tuple[Samples, Clocks]:
        """The next blocks [blocks, rows, block] that there are, at most ``most``, and the source clock of the
        first sample of each after path and stages."""
        rows = [resampler.take_blocks(most) for resampler in self._resamplers]  # they all get and give alike
        outputs = self._out + FRAME.block * np.arange(len(rows[0]))
        self._out += FRAME.block * len(rows[0])
        return np.stack(rows, axis=1), self._clock.origin + self._resamplers[0].input_time(outputs)
