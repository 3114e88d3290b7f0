"""Mandarin made comparable."""

from __future__ import annotations

import pytest

from cosyd.bench.chinese import bare, cer, normalise


@pytest.mark.parametrize(
    ("text", "left"),
    [("你好，世界。", "你好世界"), ("ＡＢＣ　１２", "abc12"), (" 听 iPhone！", "听iphone"), ("。，", "")],
)
def test_bare(text: str, left: str) -> None:
    assert bare(text) == left


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("下午3點，去臺北。", "下午三点去台北"),
        ("440余万", "四百四十余万"),
        ("增长20%", "增长百分之二十"),
        ("北京业主签名遭大量伪造", "北京业主签名遭大量伪造"),
        ("一三七零二六六二零九七", "一三七零二六六二零九七"),
        ("13702662097", "一三七零二六六二零九七"),
    ],
)
def test_normalise(text: str, read: str) -> None:
    pytest.importorskip("wetext", reason="wetext is not installed: pip install cosyd[text]")
    pytest.importorskip("opencc", reason="OpenCC is not installed: pip install cosyd[text]")
    assert normalise(text) == read


def test_errors_are_counted_over_all_characters() -> None:
    pytest.importorskip("jiwer", reason="jiwer is not installed: pip install cosyd[bench]")
    assert cer(["一二三四", "五六"], ["一二三", "五七"], bare) == pytest.approx(100 * 2 / 6)
