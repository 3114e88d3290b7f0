"""Times of words from where a decoder looked."""

from __future__ import annotations

import numpy as np
import pytest

from cosyd.asr.moonshine_words import spans

FRAME_S = 384 / 16_000
CENTRE_S = 447 / 16_000


def looking(ends: list[int], starts: list[int], frames: int = 200, blur: float = 0.05) -> np.ndarray:
    """Attention of 48 heads after 0, 1, 2, ... tokens; row 0 looks at the last frame, as the network does."""
    attention = np.full((48, len(ends) + 1, frames), blur / frames, np.float32)
    for head, looked_at in ((25, ends), (38, starts), (24, starts)):
        for row, frame in enumerate(looked_at, start=1):
            attention[head, row, frame] = 1 - blur
    attention[:, 0, -1] = 1
    return attention


def seconds(frame: int) -> float:
    return frame * FRAME_S + CENTRE_S


def tone(start: float, end: float, length: float = 5.0) -> np.ndarray:
    audio = np.random.default_rng(1).normal(0, 1e-3, int(length * 16_000)).astype(np.float32)
    t = np.arange(int(start * 16_000), int(end * 16_000))
    audio[t] += 0.3 * np.sin(2 * np.pi * 200 / 16_000 * t).astype(np.float32)
    return audio


def test_a_word_begins_where_the_one_before_lets_it_and_ends_where_its_last_token_does() -> None:
    # three words of one, two and one tokens; the second has a comma as a third
    attention = looking([40, 60, 70, 72, 120], [45, 62, 100, 101, 150])
    found = spans(attention, [0, 3, 4], [0, 2, 4], tone(0.8, 0.99))
    assert [span.end for span in found] == pytest.approx([seconds(40), seconds(70), seconds(120)])
    assert found[0].start == pytest.approx(0.8, abs=0.03)
    assert found[1].start == pytest.approx(seconds(45) - 0.02)
    assert found[2].start == pytest.approx(seconds(101) - 0.02)


def test_times_never_go_back_and_words_have_a_length() -> None:
    rng = np.random.default_rng(5)
    attention = rng.dirichlet(np.full(200, 0.05), (48, 11)).astype(np.float32)
    found = spans(attention, list(range(10)), list(range(10)), tone(0.5, 4.0))
    edges = [edge for span in found for edge in (span.start, span.end)]
    assert edges == sorted(edges)
    assert all(span.end - span.start > 0.019 for span in found)
    assert edges[-1] <= 5.0


def test_one_look_astray_is_outvoted() -> None:
    attention = looking([40, 60, 80], [45, 65, 85])
    attention[25, 2, 199], attention[25, 2, 60] = 0.6, 0.35
    assert spans(attention, [0, 1, 2], [0, 1, 2], tone(0.8, 0.99))[1].end == pytest.approx(seconds(60))


@pytest.mark.parametrize("audio", [np.zeros(80_000, np.float32), np.ones(80_000, np.float32)])
def test_silence_and_noise_have_a_beginning_too(audio: np.ndarray) -> None:
    (span,) = spans(looking([40], [45]), [0], [0], audio)
    assert 0 <= span.start < span.end == pytest.approx(seconds(40))
