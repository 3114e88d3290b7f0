"""An array's way to one channel: steps on the channels, then a beam that follows who speaks.

::

    rows ─► steps before (echo) ─► spectra ─► beam ─► one channel ─► steps after ─► the front end
                                      │          ▲                                     │
                                      └─► voices and noise ◄──── speech or not ◄───────┘ (heard)

Whether a stretch is speech, and which of its bins are, is known once the front end has been through it: VAD
and denoiser work on the beam's output, and what they say comes back (``heard``) a block later. That delays
what is learned, not the signal: the beam itself takes one hop.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cosyd.array import beams
from cosyd.array.geometry import Geometry, Vectors, angles, unit
from cosyd.array.locate import Locator, loudest
from cosyd.array.noise import NoiseField
from cosyd.array.speech import QUIET, SpeechShare
from cosyd.array.step import ArrayStep, Samples
from cosyd.array.stft import Analysis, Spectra, Synthesis
from cosyd.array.talker import Talker, referred
from cosyd.array.tracker import Track
from cosyd.array.zones import heard, zone_of
from cosyd.config.schema import ArrayConfig
from cosyd.spec import FRAME
from cosyd.types import Voice

SPEAKS = 0.5  # probability of speech from which a block's direction is one of a voice
CLEARLY = 0.2  # by how much more than the one listened to another must speak for the beam to turn
RENEW_HOPS = 250 // FRAME.hop_ms  # of noise alone, that are worth looking through it anew
TURN_BLOCKS = 2  # of 32 ms, between weights: what they are made of is the mean of a second or more
PATIENCE_HOPS = 250 // FRAME.hop_ms  # ... for so long: half a word; shorter is mostly a mistake


class ArrayPath:
    """One stream. ``after``: samples, whole hops, by which what comes back trails what went out."""

    def __init__(
        self,
        config: ArrayConfig,
        after: int = 0,
        before: Sequence[ArrayStep] = (),
        behind: Sequence[ArrayStep] = (),
    ) -> None:
        self.geometry = Geometry.of(config)
        self._config = config
        self._before, self._behind = tuple(before), tuple(behind)
        self._analysis = Analysis(self.geometry.microphones)
        self._synthesis = Synthesis()
        self._locator = (
            Locator(self.geometry, config.doa == "3d", config.talkers) if config.doa != "off" else None
        )
        self._speech = SpeechShare()
        self._beam = Beam(config, self.geometry)
        # Where voices are looked for, those that are to be ignored are voices too.
        self._ambient = NoiseField(beams.diffuse(self.geometry))
        steps = sum(step.delay for step in self._behind)
        self._lag = (after + steps + self._own_delay) // FRAME.hop
        self._past: Spectra = np.zeros((0, 0, 0), np.complex64)
        self.reset()

    @property
    def rows(self) -> int:
        """Channels that a block has: microphones, then references."""
        return self.geometry.microphones + len(self.geometry.references)

    @property
    def channels(self) -> tuple[int, ...]:
        """The device's channels, in the order of the rows."""
        return self.geometry.channels + self.geometry.references

    @property
    def _own_delay(self) -> int:
        return 0 if self._config.beamformer == "off" else self._synthesis.delay

    @property
    def delay(self) -> int:
        """Samples by which the output trails the input."""
        return self._own_delay + sum(step.delay for step in (*self._before, *self._behind))

    def reset(self) -> None:
        """The next block does not follow the one before. Voices are forgotten: they may have moved."""
        for step in (*self._before, *self._behind):
            step.reset()
        self._analysis.reset()
        self._synthesis.reset()
        self._speech.reset()
        self._beam.reset()
        self._ambient.reset()
        self._news = RENEW_HOPS  # hops of noise since the locator was told of it
        self._attended: Track | None = None
        self._challenged = 0  # hops for which another has spoken more
        if self._locator is not None:
            self._locator.reset()
        hops = self._lag + FRAME.block_hops
        self._past = np.zeros((hops, self.geometry.microphones, self._analysis.bins), np.complex64)

    def process(self, block: Samples) -> Samples:
        """float32 [rows, block] -> float32 [block]."""
        for step in self._before:
            block = step.process(block)
        block = block[: self.geometry.microphones]
        spectra = self._analysis(block)
        self._past = np.concatenate((self._past[len(spectra) :], spectra))
        mono = block[:1] if self._config.beamformer == "off" else self._synthesis(self._beam(spectra))[None]
        for step in self._behind:
            mono = step.process(mono)
        return np.asarray(mono[0])

    def heard(self, raw: Samples, denoised: Samples | None, prob: float) -> tuple[Voice, ...]:
        """What the front end made of the output [block], which trails by ``after``; who speaks in it.

        ``denoised``: the same without noise, None where nobody knows; ``prob``: that there is speech in it.
        """
        hops = len(raw) // FRAME.hop
        end = len(self._past) - self._lag
        spectra = self._past[end - hops : end]
        share = self._speech(raw, denoised, prob)
        voice = self._follow(spectra, share, prob)
        unwanted = voice is not None and not self._wanted(voice)
        if prob < QUIET:  # beside speech a part of the talker would be learned too, and taken off
            self._ambient.learn(spectra, 1 - share)
            self._news += hops
        self._beam.learn(spectra, np.ones_like(share) if unwanted else 1 - share)
        if voice is not None and not unwanted:
            self._beam.listen(voice, spectra, share)
        self._beam.turn()
        return tuple(self._tell(track) for track in self._voices())

    def _voices(self) -> list[Track]:
        return self._locator.voices if self._locator is not None else []

    def _follow(self, spectra: Spectra, share: Samples, prob: float) -> Track | None:
        """Update the voices; the one that speaks in this block."""
        if self._locator is None:
            return None
        if prob < SPEAKS:
            self._locator.silence(len(spectra))
            return None
        if self._news >= RENEW_HOPS:
            self._locator.adapt(self._ambient.covariance())
            self._news = 0
        self._locator.hear(spectra, share)
        return self._attend(self._locator.voices, len(spectra))

    def _attend(self, voices: list[Track], hops: int) -> Track | None:
        """Whom to listen to: who was listened to before, unless another clearly speaks instead."""
        best = loudest(voices)
        if self._attended not in voices or best is self._attended:
            self._attended, self._challenged = best, 0
        elif best is not None and best.confidence > self._attended.confidence + CLEARLY:
            self._challenged += hops
            if self._challenged >= PATIENCE_HOPS:
                self._attended, self._challenged = best, 0
        else:
            self._challenged = 0
        return self._attended

    def _wanted(self, voice: Track) -> bool:
        azimuth, _ = angles(voice.direction)
        return heard(self._config.zones, self.geometry.in_room(azimuth))

    def _tell(self, track: Track) -> Voice:
        azimuth, elevation = angles(track.direction)
        azimuth = self.geometry.in_room(azimuth)
        zone = zone_of(self._config.zones, azimuth)
        return Voice(
            track.number,
            round(azimuth, 1),
            round(elevation, 1) if self._config.doa == "3d" else None,
            round(track.confidence, 3),
            zone.name if zone else "",
        )


class Beam:
    """The weights, as they are now and as they turn to be: over the hops of a block they go there evenly."""

    def __init__(self, config: ArrayConfig, geometry: Geometry) -> None:
        self._config = config
        self._geometry = geometry
        self._loading = 10 ** (config.loading_db / 10)
        self._adapts = config.beamformer == "mvdr"
        self._talker = Talker(geometry.microphones)
        self._around = self._assumed = beams.diffuse(geometry)
        for zone in config.zones:
            if not zone.listen:
                edges = (geometry.in_device(zone.from_deg), geometry.in_device(zone.to_deg))
                self._assumed = self._assumed + beams.IGNORED * beams.sector(geometry, *edges)
        self._noise = NoiseField(self._assumed)
        self._fixed = None
        if config.steer == "fixed":
            self._fixed = unit(geometry.in_device(config.azimuth_deg), config.elevation_deg)
        self.reset()

    def reset(self) -> None:
        self._noise.reset()
        self._talker.reset()
        self._whom: Track | None = None
        self._direction = self._fixed
        self._now = self._wanted = self._weights()
        self._looked = self._direction  # when the weights were made
        self._turned, self._waited = False, 0

    def look(self, direction: Vectors) -> None:
        """There, unless it is fixed elsewhere."""
        if self._fixed is None:
            self._direction = direction
            self._turned = True

    def listen(self, whom: Track, spectra: Spectra, share: Samples) -> None:
        """To this voice, which speaks in these hops: spectra [hops, microphones, bins], of which ``share``
        [hops, bins], 0..1, is speech."""
        self.look(whom.direction)
        if self._adapts and self._fixed is None:
            if whom is not self._whom:
                self._talker.reset()
            self._whom = whom
            self._talker.learn(spectra, share)

    def turn(self) -> None:
        """To what is known by now, over the next block; called once a block."""
        self._waited += 1
        begins = self._looked is None and self._direction is not None
        if not self._turned or not (begins or self._waited >= TURN_BLOCKS):
            return
        if self._config.beamformer != "off":
            self._wanted = self._weights()
        self._looked, self._turned, self._waited = self._direction, False, 0

    def learn(self, spectra: Spectra, share: Samples) -> None:
        """What is noise in spectra [hops, microphones, bins]: ``share`` [hops, bins] of them, 0..1."""
        if self._adapts:
            self._noise.learn(spectra, share)
            self._turned = True

    def __call__(self, spectra: Spectra) -> Spectra:
        """[hops, microphones, bins] -> [hops, bins]."""
        hops = len(spectra)
        ramp = (np.arange(1, hops + 1, dtype=np.float32) / hops)[:, None, None]
        weights = self._now + ramp * (self._wanted - self._now)
        self._now = self._wanted
        return np.asarray((weights.conj() * spectra.transpose(0, 2, 1)).sum(axis=2))

    def _weights(self) -> beams.Weights:
        """All with the phase of the first microphone: a voice does not jump when the beam finds it."""
        return self._choose().astype(np.complex64)

    def _choose(self) -> beams.Vector:
        if self._direction is None:
            return self._undirected()
        d = referred(beams.steering(self._geometry, self._direction))
        if self._config.beamformer == "delay-sum":
            return beams.delay_and_sum(d)
        noise = self._noise.covariance() if self._adapts else self._assumed
        inverse = np.linalg.inv(beams.loaded(noise, self._loading))
        if self._adapts and self._fixed is None:
            d = self._talker.transfer(d, inverse)
        return beams.distortionless(d, inverse)

    def _undirected(self) -> beams.Vector:
        """Nobody was found yet."""
        if not self._adapts:
            return beams.first_microphone(self._geometry.microphones)
        noise = beams.loaded(self._noise.covariance(), self._loading)
        return beams.anywhere(self._around, noise)
