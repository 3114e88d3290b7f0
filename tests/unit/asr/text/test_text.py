"""From spoken to written text."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from cosyd.asr.text.mask import Mask, read_words
from cosyd.asr.text.numbers import Numbers
from cosyd.asr.text.scribe import Scribe, load_hook, make_scribe
from cosyd.asr.text.sentences import as_sentences
from cosyd.config.schema import TextConfig
from cosyd.errors import ConfigError, ModelMissing


@pytest.fixture(scope="module")
def english() -> Numbers:
    pytest.importorskip("wetext", reason="wetext is not installed: pip install cosyd[text]")
    return Numbers.load("en")


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("I paid twenty five dollars and fifty cents", "I paid $25.50"),
        ("Meet me at three thirty p m", "Meet me at 3:30 p.m."),
        ("He said, Twenty five dollars, please.", "He said, $25, please."),
        ("A hundred and twenty three people", "123 people"),
        ("a hundred people", "a hundred people"),
        ("Twenty percent off", "20% off"),
        ("One large latte and two flat whites, please.", "One large latte and two flat whites, please."),
        ("No one knows.", "No one knows."),
        ("At half past seven. Not before.", "At 7:30. Not before."),
        ("three thousand four hundred and two", "3402"),
        ("The first of twenty one and the thirty second", "The first of 21 and the 32nd"),
        ("Version 3.5, it's fine", "Version 3.5, it's fine"),
        ("", ""),
    ],
)
def test_numbers(english: Numbers, said: str, written: str) -> None:
    assert english(said) == written


def test_chinese_numbers() -> None:
    pytest.importorskip("wetext", reason="wetext is not installed: pip install cosyd[text]")
    assert Numbers.load("zh")("三点半见，我要二十五块") == "3:30见，我要25块"


@pytest.mark.parametrize(
    ("script", "said", "written"),
    [
        ("simplified", "觀察中國的曲線, OK?", "观察中国的曲线, OK?"),
        ("simplified", "观察中国", "观察中国"),
        ("traditional", "观察中国的头发和发展", "觀察中國的頭髮和發展"),
    ],
)
def test_chinese_in_one_script(script: str, said: str, written: str) -> None:
    """发 is two characters in the other script: words decide which."""
    pytest.importorskip("opencc", reason="OpenCC is not installed: pip install cosyd[text]")
    assert make_scribe(TextConfig(script=script)).write(said) == written


def test_script_comes_before_numbers() -> None:
    pytest.importorskip("opencc", reason="OpenCC is not installed: pip install cosyd[text]")
    pytest.importorskip("wetext", reason="wetext is not installed: pip install cosyd[text]")
    scribe = make_scribe(TextConfig(script="simplified", numbers=True, language="zh"))
    assert scribe.write("三點半見，我要二十五塊") == "3:30见，我要25块"


def test_only_what_the_grammar_changes_is_taken() -> None:
    """Words that it leaves alone keep their case, whatever it does to the others."""
    numbers = Numbers(lambda text: text.replace("twenty two", "22"))
    assert numbers("Ask Anna about Twenty Two, Main Street! OK") == "Ask Anna about 22, Main Street! OK"


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("what time is it", "What time is it?"),
        ("FLAT WHITE WITHOUT SUGAR", "Flat white without sugar."),
        ("can you hear me", "Can you hear me?"),
        ("can of soup", "Can of soup."),
        ("i think i'm late", "I think I'm late."),
        ("why", "Why?"),
        ("yes", "Yes."),
        ("It is fine already", "It is fine already"),
        ("so it is.", "so it is."),
        ("3.5 is fine", "3.5 is fine."),
        ("我要一杯", "我要一杯"),
        ("", ""),
    ],
)
def test_sentences(said: str, written: str) -> None:
    assert as_sentences(said) == written


def test_mask() -> None:
    mask = Mask(["darn", "heck*", "son of a gun", "  ", "*"])
    assert mask("Darn it, what the HECKING heck, darned") == "D*** it, what the H****** h***, darned"
    assert mask("you son of  a gun!") == "you s** **  * ***!"
    assert Mask([])("darn") == "darn"
    assert Mask(["a+b"])("a+b aab") == "a+* aab"


def test_mask_file(tmp_path: Path) -> None:
    file = tmp_path / "words"
    file.write_text("# mine\ndarn\n\n son of a gun \n")
    assert read_words(file) == ("darn", "son of a gun")
    scribe = make_scribe(TextConfig(mask=("heck",), mask_file=str(file)))
    assert scribe.write("heck and darn") == "h*** and d***"
    with pytest.raises(ConfigError, match=r"text.mask_file: .*none"):
        make_scribe(TextConfig(mask_file=str(tmp_path / "none")))


def test_steps_follow_each_other() -> None:
    pytest.importorskip("wetext", reason="wetext is not installed: pip install cosyd[text]")
    config = TextConfig(numbers=True, sentences=True, mask=("darn",), hook="textwrap:dedent")
    assert make_scribe(config).write("darn twenty dollars") == "D*** $20."


def test_nothing_is_done_by_default() -> None:
    scribe = make_scribe(TextConfig())
    assert not scribe
    assert scribe.write("as it is") == "as it is"


@pytest.mark.parametrize(
    ("wanted", "library"), [({"numbers": True}, "wetext"), ({"script": "simplified"}, "opencc")]
)
def test_a_library_that_is_missing_is_told_and_only_where_it_is_needed(
    wanted: dict[str, object], library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case 22."""
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ModelMissing, match=r"pip install .*cosyd\[text\]"):
        make_scribe(TextConfig(**wanted))
    assert make_scribe(TextConfig(sentences=True)).write("it goes on") == "It goes on."


def test_a_step_that_fails_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def broken(text: str) -> str:
        raise ValueError("no")

    with caplog.at_level(logging.WARNING):
        assert Scribe([broken, str.upper]).write("word") == "WORD"
    assert "broken" in caplog.text


@pytest.mark.parametrize("hook", ["nowhere.at_all:function", "textwrap:nothing", "math:pi"])
def test_hooks_that_are_none_are_told(hook: str) -> None:
    with pytest.raises(ConfigError, match=r"text\.hook"):
        load_hook(hook)
