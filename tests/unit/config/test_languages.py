"""``asr.language``: codes, and what was meant by something else."""

from __future__ import annotations

import pytest

from cosyd.config.languages import LANGUAGES, codes_of, fault, named
from cosyd.config.load import Locations, load
from cosyd.errors import ConfigError


def test_the_table() -> None:
    assert len(LANGUAGES) == 100
    assert LANGUAGES["zh"] == "Chinese"
    assert LANGUAGES["ht"] == "Haitian Creole"
    assert named("haw") == "Hawaiian (haw)"
    assert all(fault(code) is None for code in [*LANGUAGES, "auto", "en,zh", "de, fr"])
    assert "'zz'" in (fault("en,zz") or "")
    assert "''" in (fault("") or "")
    assert codes_of("en, zh") == ("en", "zh")
    assert codes_of("auto") == ()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("chinese", "zh"),
        ("Mandarin", "zh"),
        ("zh-CN", "zh"),
        ("en_US", "en"),
        ("Germann", "de"),
        ("cn", "zh"),
    ],
)
def test_did_you_mean(written: str, meant: str) -> None:
    assert f"did you mean {meant!r} ({LANGUAGES[meant]})?" in (fault(written) or "")


def test_nothing_near() -> None:
    assert fault("klingon!") == "'klingon!' is no language; write a code such as en or zh, or auto"


def test_in_a_configuration(tmp_path) -> None:
    path = tmp_path / "cosyd.yaml"
    path.write_text("asr:\n  language: chinese\n")
    expected = r"cosyd\.yaml:2: asr\.language: 'chinese' is no language; did you mean 'zh'"
    with pytest.raises(ConfigError, match=expected):
        load(Locations((path,), required=True))
