"""``cosyd listen`` and the demo between their daemon and the screen: what they do with what comes."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from cosyd import demo
from cosyd.cli import listen
from cosyd.cli.captions import Captions
from cosyd.client import AnyMessage, AsrFinal, State
from cosyd.errors import AudioError, CosydError


class FakeClient:
    """Hands out ``messages``, with None where nothing came in time; afterwards nothing comes."""

    def __init__(self, messages: Sequence[AnyMessage | None]) -> None:
        self._messages = list(messages)

    def receive(self, timeout_s: float | None = None) -> AnyMessage | None:
        return self._messages.pop(0) if self._messages else None


class FakeDaemon:
    """Has ended, with exit code 3, when it has been looked at ``lives`` times."""

    def __init__(self, lives: int) -> None:
        self._lives = lives
        self.asked_to_end = False

    @property
    def ended(self) -> bool:
        self._lives -= 1
        return self._lives < 0

    def end(self) -> None:
        self.asked_to_end = True

    def check(self) -> None:
        if self.ended:
            error = CosydError("its own words")
            error.exit_code = 3  # type: ignore[misc]
            raise error


@pytest.fixture
def show() -> listen._Display:
    return listen._Display(Console(file=io.StringIO()), None)


FINAL = AsrFinal(source="mic", utt=1, text="The end.", start=0.0, end=1.0, reason="shutdown")
STOPPED = State(source="mic", status="stopped")
FAILED = State(source="mic", status="failed", reason="no such file")
LOST = State(source="mic", status="lost", reason="no such device")


def test_after_ctrl_c_it_waits_for_the_last_sentence(show: listen._Display) -> None:
    captions = Captions()
    messages = [None] * 30 + [FINAL, STOPPED]
    daemon = FakeDaemon(lives=100)
    listen._finish(FakeClient(messages), daemon, captions, show)  # type: ignore[arg-type]
    assert captions.utterances == 1
    assert daemon.asked_to_end


def test_after_ctrl_c_it_does_not_wait_for_a_daemon_that_has_ended(show: listen._Display) -> None:
    """What that had published is still shown."""
    captions = Captions()
    listen._finish(FakeClient([FINAL]), FakeDaemon(lives=0), captions, show)  # type: ignore[arg-type]
    assert captions.utterances == 1


def test_after_ctrl_c_it_does_not_wait_for_ever(
    show: listen._Display, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen, "STOP_S", 0.05)
    listen._finish(FakeClient([]), FakeDaemon(lives=10**9), Captions(), show)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("message", "error", "words"),
    [(FAILED, CosydError, "its own words"), (LOST, AudioError, "no such device")],
)
def test_a_source_that_cannot_be_used_is_3(
    show: listen._Display, message: State, error: type[CosydError], words: str
) -> None:
    client, daemon = FakeClient([message]), FakeDaemon(lives=2)
    with pytest.raises(error, match=words) as raised:
        listen._follow(client, daemon, Captions(), show)  # type: ignore[arg-type]
    assert raised.value.exit_code == 3
    client, daemon = FakeClient([message]), FakeDaemon(lives=2)
    screen = demo.Screen(Console(file=io.StringIO()))
    with pytest.raises(error, match=words) as raised:
        demo._listen(client, daemon, screen, demo.Heard())  # type: ignore[arg-type]
    assert raised.value.exit_code == 3
