"""Moonshine's own library on the recording of ``cosyd bench partials``: what it shows, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cosyd.bench.ask_moonshine import ask_moonshine
from cosyd.bench.shown import Shown, keys, pairs
from cosyd.bench.speech import Audio
from cosyd.spec import FRAME
from cosyd.types import Word

TIMEOUT_S = 1_800.0
NEAR_S = 1.0  # a line's own times are coarse: its words are looked for so far around them
# Runs in the peer's interpreter: audio as float32 on stdin; samples of a block, their rate and the seconds
# between two updates as arguments -> processor time and, of each line that changed, when, number, text, begin
# and length, as JSON. The library works when audio is added, so a block that comes meanwhile waits; of wall
# and processor time the shorter counts.
_SCRIPT = """
import json, sys, time
import numpy as np
from moonshine_voice import ModelArch, Transcriber, get_model_path
block, rate, every = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
audio = np.frombuffer(sys.stdin.buffer.read(), "<f4")
peer = Transcriber(str(get_model_path("tiny-en")), ModelArch.TINY, update_interval=every)
peer.transcribe_without_streaming(audio[:rate].tolist(), rate)
came, lines, free, busy = [], [], 0.0, 0.0
peer.add_listener(lambda event: came.append(event.line))
peer.start()
for first in range(0, audio.size - block + 1, block):
    now = max(free, (first + block) / rate)
    wall, cpu = time.perf_counter(), time.process_time()
    peer.add_audio(audio[first : first + block].tolist(), rate)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    free, busy = now + min(wall, cpu), busy + cpu
    lines += [[free, line.line_id, line.text, line.start_time, line.duration] for line in came]
    came.clear()
print(json.dumps([busy, lines]))
"""


@dataclass
class Line:
    """A stretch of speech and what the peer showed of it; ``begin``, ``end``: seconds of the recording."""

    begin: float
    end: float
    shown: Shown = field(default_factory=Shown)


def moonshine_lines(audio: Audio, every_s: float) -> tuple[float, list[Line]] | str:
    """Processor time and lines, or why it was not run. ``every_s``: between two updates."""
    found = ask_moonshine(_SCRIPT, (FRAME.block, FRAME.rate_hz, every_s), audio, TIMEOUT_S)
    return found if isinstance(found, str) else (found[0], lines_of(found[1]))


def lines_of(changes: Sequence[tuple[float, int, str, float, float]]) -> list[Line]:
    """Each change: when, number of the line, its text, begin and length in seconds."""
    lines: dict[int, Line] = {}
    for when, number, text, begin, length in changes:
        line = lines.setdefault(number, Line(begin, begin + length))
        line.end = max(line.end, begin + length)
        if not line.shown.texts or line.shown.texts[-1][1] != text:
            line.shown.add(when, text)
    return [line for line in lines.values() if line.shown.texts]


def timed(line: Line, spoken: Sequence[Word]) -> Line:
    """The line with times for the words of its last text: those of the same words among ``spoken``, of the
    whole recording. Words that are not there have no ``conf``, and so no delay."""
    near = [w for w in spoken if w.end > line.begin - NEAR_S and w.start < line.end + NEAR_S]
    final = keys(line.shown.texts[-1][1])
    there = [key for word in near for key in keys(word.w)[:1] or [""]]
    same = pairs(final, there)
    line.shown.words = tuple(
        replace(near[same[i]], conf=1.0) if i in same else Word(key, 0.0, 0.0) for i, key in enumerate(final)
    )
    return line
