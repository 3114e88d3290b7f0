"""The environment of Moonshine's own library: what it is given, and what is said when it cannot answer."""

import sys

import numpy as np
import pytest

from cosyd.bench.ask_moonshine import MOONSHINE_ENV, ask_moonshine

AUDIO = np.array([0.5, -0.25], np.float32)


@pytest.fixture(autouse=True)
def _python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MOONSHINE_ENV, sys.executable)


def test_it_is_given_audio_and_arguments() -> None:
    script = "import array, json, sys; a = array.array('f', sys.stdin.buffer.read()); print('!'); "
    script += "print(json.dumps([list(a), sys.argv[1:]]))"
    assert ask_moonshine(script, (7, 0.2), AUDIO, 60.0) == [[0.5, -0.25], ["7", "0.2"]]


def test_a_failure_is_its_last_line() -> None:
    assert ask_moonshine("raise ValueError('no model')", (), AUDIO, 60.0) == "ValueError: no model"
    assert ask_moonshine("raise SystemExit(3)", (), AUDIO, 60.0) == "it failed"


def test_it_is_not_waited_for_for_ever() -> None:
    assert ask_moonshine("import time; time.sleep(60)", (), AUDIO, 0.0) == "it did not finish in 0 s"
