"""Lists of hotwords: what is taken, what is not and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosyd.asr.hotwords import (
    MAX_PHRASE,
    MAX_PHRASES,
    MAX_SCORE,
    Hotword,
    Rejected,
    parse_hotword,
    parse_hotwords,
    read_hotwords,
)
from cosyd.errors import ConfigError


@pytest.mark.parametrize(
    ("line", "hotword"),
    [
        ("Sauter", Hotword("Sauter")),
        ("flat white :2.5", Hotword("flat white", 2.5)),
        ("americano:3", Hotword("americano", 3.0)),
        ("  ice   cream : 1e0 ", Hotword("ice cream", 1.0)),
        ("语音识别:2", Hotword("语音识别", 2.0)),
        ("u\u0308ber", Hotword("über")),
        (f"a:{MAX_SCORE}", Hotword("a", MAX_SCORE)),
    ],
)
def test_phrase_and_score(line: str, hotword: Hotword) -> None:
    assert parse_hotword(line) == hotword
    assert parse_hotword(str(hotword)) == hotword


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (":2", "no letters"),
        ("...", "no letters"),
        ("latte:two", "'two' is no score"),
        ("latte:", "'' is no score"),
        ("latte:0", "not above 0"),
        ("latte:-1", "not above 0"),
        ("latte:nan", "not above 0"),
        (f"latte:{MAX_SCORE * 1.01}", "at most"),
        ("hey computer #0.35", "keyword spotting"),
        ("hey computer @computer", "keyword spotting"),
        ("x" * (MAX_PHRASE + 1), "longer"),
    ],
)
def test_reason_of_a_rejection(line: str, reason: str) -> None:
    rejected = parse_hotword(line)
    assert isinstance(rejected, Rejected)
    assert reason in rejected.reason


def test_list_keeps_order_last_score_and_every_reason() -> None:
    accepted, rejected = parse_hotwords(["# drinks", "latte:1", "", "mocha", "LATTE:2", "tea:x"])
    assert accepted == (Hotword("LATTE", 2.0), Hotword("mocha"))
    assert [r.phrase for r in rejected] == ["tea:x"]


def test_list_is_bounded_with_a_word() -> None:
    accepted, rejected = parse_hotwords([f"word {i}" for i in range(MAX_PHRASES + 1)] + ["word 0:2"])
    assert len(accepted) == MAX_PHRASES
    assert accepted[0].score == 2.0
    assert [r.phrase for r in rejected] == [f"word {MAX_PHRASES}"]


def test_file(tmp_path: Path) -> None:
    path = tmp_path / "hotwords.txt"
    path.write_bytes("\ufeffflat white :2\r\nlatte\r\n".encode())
    assert parse_hotwords(read_hotwords(path))[0] == (Hotword("flat white", 2.0), Hotword("latte"))


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.txt: the hotwords cannot be read"):
        read_hotwords(tmp_path / "none.txt")
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"caf\xe9\n")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_hotwords(bad)
