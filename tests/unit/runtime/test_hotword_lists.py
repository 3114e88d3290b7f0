"""Who changes the lists of hotwords, and what holds afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosyd.asr.hotwords import Hotword, Rejected
from cosyd.config.schema import AsrConfig, Config, SourceConfig
from cosyd.runtime.hotword_lists import EVERYWHERE, FILE_KEY, HotwordLists, with_hotwords


def config(*hotwords: str, mic: tuple[str, ...] = (), file: Path | None = None) -> Config:
    return Config(
        sources=(SourceConfig(name="mic", hotwords=mic), SourceConfig(name="hall")),
        asr=AsrConfig(hotwords=hotwords, hotwords_file=None if file is None else str(file)),
    )


def test_lists_come_from_configuration_and_file(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("c\nb:2\n")
    applied = HotwordLists().configure(config("a", "b", mic=("d :1",), file=file))
    assert applied.asr.hotwords == ("a", "b:2", "c")
    assert [source.hotwords for source in applied.sources] == [("d:1",), ()]


def test_a_command_holds_until_the_configuration_says_something_new() -> None:
    lists = HotwordLists()
    lists.configure(config("a", mic=("m",)))
    lists.replace(EVERYWHERE, [Hotword("z")])
    lists.replace("mic", [Hotword("y", 2.0)])
    assert lists.configure(config("a", mic=("m",))).asr.hotwords == ("z",)  # a reload about other things
    applied = lists.configure(config("b", mic=("m",)))
    assert applied.asr.hotwords == ("b",)
    assert applied.sources[0].hotwords == ("y:2",)


def test_the_rest_of_a_configuration_is_left_alone() -> None:
    before = config("a", mic=("m",))
    assert HotwordLists().configure(before) == before


def test_a_file_that_cannot_be_read_keeps_what_it_said(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    lists = HotwordLists()
    assert lists.configure(config("a", file=file)).asr.hotwords == ("a",)
    assert [item.phrase for item in lists.rejected] == [FILE_KEY]
    file.write_text("b\n")
    assert lists.configure(config("a", file=file)).asr.hotwords == ("a", "b")
    assert lists.rejected == ()
    file.unlink()
    assert lists.configure(config("a", file=file)).asr.hotwords == ("a", "b")
    assert [item.phrase for item in lists.rejected] == [FILE_KEY]


def test_wrong_lines_and_unusable_phrases_are_no_part_of_it() -> None:
    lists = HotwordLists()
    lists.configure(config("a:x", "b", mic=("c",)))
    assert lists.rejected == (Rejected("a:x", "'x' is no score; write phrase:score, such as a:2"),)
    assert [hotword.phrase for hotword in lists.all()] == ["b", "c"]
    lists.drop([Rejected("c", "why")])
    assert lists.applied(config()).sources[0].hotwords == ()


def test_where_nobody_changes_them_wrong_lines_are_told(caplog: pytest.LogCaptureFixture) -> None:
    assert with_hotwords(config("a:x", "b")).asr.hotwords == ("b",)
    assert "hotword without effect: a:x: 'x' is no score" in caplog.text


def test_the_list_of_a_source_goes_with_it() -> None:
    lists = HotwordLists()
    lists.configure(config(mic=("m",)))
    lists.configure(Config(sources=(SourceConfig(name="hall"),)))
    assert lists.all() == ()
