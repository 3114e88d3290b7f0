"""Hours of speech through a streaming model at full speed, with all that a long life brings, and what grows.

Several sources talk at once. Utterances end every 6 s: most close their stream, one source's never does, as
in a room where nobody pauses; some sources go away in the middle of a word and others come; every second
utterance has hotwords of its own; the text is asked for after each step. Nothing may grow with the hours:
memory, open files, threads, Python's objects, streams.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.hotwords import Hotword
from cosyd.asr.streaming.chunk import Chunk, Ends
from cosyd.asr.streaming.former import BatchFormer
from cosyd.asr.streaming.recognizer import CachedStateRecognizer
from cosyd.asr.streaming.stream_work import StreamWork
from cosyd.spec import FRAME

Audio = NDArray[np.float32]

SOURCES = 8
PIECE_S = 0.32
UTTERANCE_S = 6.0
LEAVES_EVERY = 7  # utterances, of which one is broken off and its source forgotten
HOTWORDS_EVERY = 2  # utterances, of which one has hotwords
MIB = 1 << 20


@dataclass(frozen=True)
class Level:
    """What there is after so many hours of audio. ``blocks``: pieces of memory that Python holds."""

    hours: float
    rss_mib: float
    blocks: int
    files: int
    threads: int
    streams: int


def level(hours: float, streams: int) -> Level:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    rss = pages * os.sysconf("SC_PAGE_SIZE") / MIB
    files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the folder is gone through once, by name
    return Level(hours, rss, sys.getallocatedblocks(), files, threading.active_count(), streams)


def slope(levels: Sequence[Level]) -> float:
    """Growth of memory in MiB an hour of audio, by least squares."""
    hours = [each.hours for each in levels]
    return float(np.polyfit(hours, [each.rss_mib for each in levels], 1)[0])


class _Source:
    """Who talks: utterance after utterance of one recording, from another place each time."""

    def __init__(self, number: int, audio: Audio, phrases: Sequence[str], piece: int) -> None:
        self.name = f"source-{number}"
        self.endless = number == 0
        self._audio, self._phrases, self._piece = audio, phrases, piece
        self._number, self._visits = number, 0
        self._at = 7_919 * number  # a prime: no two sources say the same at the same time
        self._id = 0
        self._utt = 0

    def utterance(self) -> Iterator[Chunk]:
        """Its pieces; the last ends it."""
        self._utt += 1
        count = round(UTTERANCE_S * FRAME.rate_hz / self._piece)
        hotwords = self._hotwords()
        for i in range(count):
            ends: Ends = "" if i + 1 < count else "segment" if self.endless else "utterance"
            yield self._chunk(ends, hotwords)

    @property
    def leaves(self) -> bool:
        return not self.endless and (self._utt + self._number) % LEAVES_EVERY == 0

    def leave(self) -> None:
        """Its place is taken by one that was never here before."""
        self._visits += 1
        self.name = f"source-{self._number}-{self._visits}"

    def _hotwords(self) -> tuple[Hotword, ...]:
        if not self._phrases or (self._utt + self._number) % HOTWORDS_EVERY:
            return ()
        score = 1 + (self._utt * 37 + self._number) % 4_001 / 1_000  # hardly ever twice the same list
        return tuple(Hotword(phrase, score) for phrase in self._phrases)

    def _chunk(self, ends: Ends, hotwords: tuple[Hotword, ...]) -> Chunk:
        self._id += 1
        begin = self._at % (len(self._audio) - self._piece)
        self._at += self._piece
        return Chunk(
            id=self._id,
            source=self.name,
            utt=self._utt,
            kind="final" if ends else "partial",
            audio=self._audio[begin : begin + self._piece],
            start_sample=self._at - self._piece,
            end_sample=self._at,
            anchor=0,
            blocks=self._id,
            hotwords=hotwords,
            ends=ends,
        )


class Endurance:
    """The sources and the work that they make; ``finals``: results so far."""

    def __init__(
        self,
        recognizer: CachedStateRecognizer,
        audio: Audio,
        phrases: Sequence[str] = (),
        sources: int = SOURCES,
        piece_s: float = PIECE_S,
    ) -> None:
        """``audio`` float32 at 16 kHz, longer than the ``piece_s`` that are pushed at a time; the recogniser
        has a slot for each source. Raises ValueError."""
        self.finals = 0
        self.heard_s = 0.0
        self._recognizer = recognizer
        self._work = StreamWork(recognizer, BatchFormer(sources))
        piece = round(piece_s * FRAME.rate_hz)
        if len(audio) <= piece:
            raise ValueError(f"{len(audio)} samples of audio are less than a piece of {piece}")
        self._sources = [_Source(i, audio, phrases, piece) for i in range(sources)]
        self._talking = {source: source.utterance() for source in self._sources}
        self._now, self._piece_s = 0.0, piece_s

    def levels(
        self, hours: float, points: int, told: Callable[[Level], None] = lambda level: None
    ) -> list[Level]:
        """What there is after each of ``points`` equal parts of so many more hours, of all together. Each is
        ``told`` when it is reached."""
        found: list[Level] = []
        begun = self.heard_s
        for i in range(1, points + 1):
            while self.heard_s < begun + i * hours * 3_600 / points:
                self.step()
            found.append(level(self.heard_s / 3_600, len(self._recognizer.streams)))
            told(found[-1])
        return found

    def step(self) -> None:
        """One piece of each source that is not just ending, and all steps of the network that follow."""
        for source in self._sources:
            if not self._work.ending(source.name):
                self._hear(source)
        while (delay := self._work.delay(self._now)) is not None:
            self._now += delay
            self.finals += sum(result.decode.kind == "final" for result in self._work.step(self._now))
        self._now += self._piece_s

    def _hear(self, source: _Source) -> None:
        chunk = next(self._talking[source])
        self.heard_s += len(chunk.audio) / FRAME.rate_hz
        if chunk.ends and source.leaves:
            self._work.forget(source.name)
            source.leave()
        else:
            found = self._work.hear([chunk], self._now, self._now)
            self.finals += sum(result.decode.kind == "final" for result in found)
        if chunk.ends:
            self._talking[source] = source.utterance()

    def close(self) -> None:
        for source in self._sources:
            self._work.forget(source.name)
