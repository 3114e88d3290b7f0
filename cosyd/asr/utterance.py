"""An open utterance: its audio, block by block, and what is known of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.decode import Decode
from cosyd.asr.endpoint import Progress
from cosyd.asr.screen import Screen
from cosyd.asr.stable import StablePrefix, keep_promise, split_words
from cosyd.asr.window import Window, joined
from cosyd.spec import FRAME
from cosyd.types import Transcript

Audio = NDArray[np.float32]
SETTLE_MS = 24_000  # shorter costs less in long speech, but its final is no longer one decode of all of it
SETTLE_BLOCKS = FRAME.blocks(SETTLE_MS)
_SILENT = 1e-10  # mean square of digital silence: -100 dB instead of minus infinity


class Block(NamedTuple):
    """One front-end block: source clock of its first sample and of the one after its last."""

    sample: int
    end: int
    audio: Audio
    prob: float
    voiced: bool
    level_db: float


def level_db(audio: Audio) -> float:
    return 10.0 * math.log10(float(audio @ audio) / len(audio) + _SILENT)


@dataclass
class Utterance:
    """``blocks`` from the pre-roll on. Positions in it are numbers of blocks."""

    number: int
    start_sample: int  # where speech began, after the pre-roll
    blocks: list[Block]
    stable: StablePrefix = field(default_factory=StablePrefix)
    speech: int = 0  # blocks of speech
    speech_end: int = 0  # position after the last block of speech
    grace: int = 0  # silence counts from here at the earliest
    asked: int = 0  # position up to which the newest partial was requested
    answered: int = 0  # position up to which the newest result heard
    newest: int = -1  # id of the newest request whose result came
    news: int = 0  # position at which something new was last recognised
    stale: int = 0  # blocks heard after that without anything new
    most_words: int = 0
    transcript: Transcript = field(default_factory=lambda: Transcript(""))  # newest, of the whole
    anchor: int = 0  # position before which everything is settled and not decoded any more
    settled: Transcript = field(default_factory=lambda: Transcript(""))  # what was said before it
    draft: tuple[int, ...] = ()  # tokens of the newest result from the anchor on
    screen: Screen = field(default_factory=Screen)
    shown: tuple[str, str] = ("", "")  # text and stable of the newest partial
    window: Window = field(default_factory=Window)  # what partials hear
    speculation: Decode | None = None
    speculated: Transcript | None = None
    failed_cut: int = -1  # the recogniser failed on a speculation up to here

    def voiced(self, blocks: int) -> None:
        """The newest ``blocks`` blocks are speech."""
        self.speech += blocks
        self.speech_end = len(self.blocks)

    def recount(self) -> None:
        """Take speech from the blocks' own flags (after a split)."""
        voiced = [i for i, block in enumerate(self.blocks) if block.voiced]
        self.speech = len(voiced)
        self.speech_end = voiced[-1] + 1 if voiced else 0

    @property
    def quiet(self) -> int:
        return max(0, len(self.blocks) - max(self.speech_end, self.grace))

    @property
    def progress(self) -> Progress:
        return Progress(self.quiet, self.speech, len(self.blocks), self.stale)

    @property
    def first_sample(self) -> int:
        """Of the audio; of an utterance that has just been cut off the one before there is none yet."""
        return self.blocks[0].sample if self.blocks else self.start_sample

    def sample_at(self, position: int) -> int:
        """Source clock at a position, which may be the end."""
        return self.blocks[position - 1].end if position else self.first_sample

    @property
    def end_sample(self) -> int:
        """Where speech ended so far; not before it began."""
        return max(self.start_sample, self.sample_at(self.speech_end))

    def heard(self, decode: Decode, transcript: Transcript) -> None:
        """A result on the blocks from the anchor to ``decode.blocks``."""
        window = decode.window or Window(self.anchor)
        whole = joined(window.said, transcript)
        self.draft = whole.tokens
        self.transcript = joined(self.settled, whole)
        stable = split_words(self.stable.text)
        kept = split_words(self.transcript.text)[: len(stable)] == stable
        self.window = window.moved(transcript, decode.blocks, decode.origin_s) if kept else window
        words = len(split_words(self.transcript.text))
        if words > self.most_words:
            self.most_words, self.news = words, decode.blocks
        self.stale = decode.blocks - self.news

    def speech_between(self, first: int, last: int) -> int:
        """Blocks of speech between two positions."""
        return sum(block.voiced for block in self.blocks[first:last])

    def settle(self) -> None:
        """If a speculation was in vain, because speech went on, and it heard enough: keep what it says.

        What it heard is not decoded again, so the cost of a result does not grow with the utterance.
        """
        speculation, result = self.speculation, self.speculated
        if speculation is None or result is None or not result.text or speculation.blocks > self.speech_end:
            return
        if speculation.anchor != self.anchor or speculation.blocks - self.anchor < SETTLE_BLOCKS:
            return
        whole = joined(self.settled, result)
        self.settled = replace(whole, text=keep_promise(self.stable.text, whole.text))
        self.anchor = speculation.blocks
        self.window = Window(self.anchor)
        self.stable.promise(self.settled.text, self.anchor)
        self.transcript, self.draft = self.settled, ()

    def prompt(self, said: str = "") -> str:
        """The stable words from the anchor on, without as many of them as ``said`` has."""
        before = len(split_words(self.settled.text)) + len(split_words(said))
        return " ".join(split_words(self.stable.text)[before:])

    def draft_after(self, said: tuple[int, ...]) -> tuple[int, ...]:
        """The draft without these tokens; none where it does not begin with them."""
        return self.draft[len(said) :] if self.draft[: len(said)] == said else ()


def concatenate(blocks: Sequence[Block], padding: int = 0) -> Audio:
    """The audio of blocks and ``padding`` samples of silence."""
    parts: list[Audio] = [block.audio for block in blocks]
    if padding > 0:
        parts.append(np.zeros(padding, np.float32))
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


ONSET_MS = 256  # how far the VAD may trail the beginning of a word
ONSET_DB = 10.0  # over the quiet part of the pre-roll: the beginning of a word rather than noise


def find_onset(blocks: Sequence[Block], run: int, onset_blocks: int) -> int:
    """Position where speech began, of blocks whose last ``run`` are speech by probability.

    The VAD trails the voice by up to some 100 ms; the level tells. From the first block of speech it goes
    back as long as the blocks are clearly louder than the quietest quarter of what was kept.
    """
    at = len(blocks) - run
    if at <= 0:
        return 0
    floor = float(np.percentile([block.level_db for block in blocks[:at]], 25))
    earliest = max(0, at - onset_blocks)
    while at > earliest and blocks[at - 1].level_db > floor + ONSET_DB:
        at -= 1
    return at
