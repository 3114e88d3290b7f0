"""A pipeline whose networks are rules: loud is speech, and the text is what was loud."""

from __future__ import annotations

import time
from contextlib import contextmanager

import numpy as np
from front_end_fakes import BlockByBlock

from cosyd.asr.decode_queue import DecodeQueue
from cosyd.config.schema import Config, SourceConfig
from cosyd.frontend.front_end import FrontEnd
from cosyd.runtime.ipc import Recognized
from cosyd.runtime.pipeline import Pipeline
from cosyd.types import Backend, Checkpoint, Final, Transcript

LOUD = 0.01
RULE = Backend("rule", "a test")


class LoudnessVad(BlockByBlock):
    """A detector: 0.99 for loud blocks."""

    backend = RULE
    delay = 0

    def reset(self, slots):
        pass

    def process(self, slots, x):
        return np.where(np.abs(x).max(axis=1) > LOUD, 0.99, 0.0).astype(np.float32)


class LoudnessRecognizer:
    """Says one word for every 200 ms of loud audio that it is given."""

    family = "segment"
    name = "loud"
    backend = RULE
    limit_s = 30.0

    def warm_up(self):
        pass

    def close(self):
        pass

    def unusable(self, hotwords):
        return ()

    def transcribe(self, requests):
        return [Transcript(" ".join(f"w{i}" for i in range(self._words(r.audio)))) for r in requests]

    @staticmethod
    def _words(audio):
        return int((np.abs(audio) > LOUD).sum() * 2 // 3200)


class Run:
    """A pipeline with one source and what it emitted."""

    def __init__(self, pipeline, emitted):
        self.pipeline = pipeline
        self.emitted = emitted

    def add(self, ring_path, checkpoint, name="talk", **source):
        config = SourceConfig(name=name, type="file", path="unused", **source)
        self.pipeline.add_source(config, ring_path, checkpoint, muted=False)

    def settle(self, done=None, patience_s=20):
        """Turn until nothing moves any more (or until ``done``)."""
        deadline = time.monotonic() + patience_s
        quiet = 0
        while quiet < 5:
            assert time.monotonic() < deadline, "the pipeline does not settle"
            if done is not None and done():
                return
            moved = self.pipeline.turn(0.02)
            waiting = done is not None or self.pipeline.progress().queue_depth
            quiet = 0 if moved or waiting else quiet + 1

    def of(self, kind):
        return [message for message in self.emitted if isinstance(message, kind)]

    def finals(self):
        return [m.event for m in self.of(Recognized) if isinstance(m.event, Final)]


@contextmanager
def running(emit=None, **changes):
    """A pipeline on fakes that tells ``emit`` or its ``Run``. ``changes``: sections of the configuration."""
    config = Config(**{"frontend": {"denoise": "off", "remove_dc": False}, **changes})
    front_end = FrontEnd(config.frontend, LoudnessVad(), None, config.frontend.max_streams)
    emitted = []
    with DecodeQueue(LoudnessRecognizer()) as queue:
        pipeline = Pipeline(config, front_end, queue, 30.0, emit or emitted.append)
        try:
            yield Run(pipeline, emitted)
        finally:
            pipeline.close()


def tone(seconds, rate_hz, amplitude=0.3):
    """S16 [n, 1] of a 440 Hz tone."""
    t = np.arange(round(seconds * rate_hz)) / rate_hz
    return np.round(amplitude * 32767 * np.sin(2 * np.pi * 440 * t)).astype(np.int16)[:, None]


def silence(seconds, rate_hz):
    return np.zeros((round(seconds * rate_hz), 1), np.int16)


START = Checkpoint(sample=0)
