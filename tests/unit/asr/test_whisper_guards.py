"""What is told apart from speech."""

from __future__ import annotations

import numpy as np
import pytest

from cosyd.asr import whisper_guards as guards


@pytest.mark.parametrize(
    ("said", "spoken"),
    [
        ("Hello, [laughs] world.", "Hello, world."),
        ("[BLANK_AUDIO]", ""),
        ("(音乐)", ""),
        ("（笑）", ""),
        ("♪ la la la ♪", ""),
        ("*sighs* No.", "No."),
        ("...", ""),
        ("字幕by索兰娅", ""),
        ("请不吝点赞 订阅 转发 打赏支持明镜与点点栏目", ""),
        ("Thank you.", "Thank you."),
        ("你好", "你好"),
    ],
)
def test_spoken(said: str, spoken: str) -> None:
    assert guards.spoken(said) == spoken


def test_looped() -> None:
    assert guards.looped([1, 2, 3] * 4, "a b c " * 4)
    assert guards.looped(list(range(60)), "and so it goes on and on, " * 8)
    assert not guards.looped(
        list(range(30)), "The quick brown fox jumps over the lazy dog, and then it sleeps."
    )
    assert not guards.looped([5, 5, 5], "no no no")


def test_silent() -> None:
    assert guards.silent(np.zeros(0, np.float32))
    assert guards.silent(np.full(100, -5e-5, np.float32))
    assert not guards.silent(np.full(100, -1e-3, np.float32))
