"""The publisher and its journal: replays across restarts, disks that fail and come back."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from pathlib import Path

import pytest
from publisher_rig import Subscribe, final, partial, receive, run, subscribed

from cosyd.config.paths import Paths
from cosyd.config.schema import Config
from cosyd.errors import PublishError
from cosyd.publish import journal as journal_module
from cosyd.publish import publisher as publisher_module
from cosyd.publish.messages import AsrFinal, Health, decode
from cosyd.publish.publisher import Publisher


def test_replay_across_restarts(paths: Paths) -> None:
    async def life(texts: list[str], seqs: list[int]) -> str:
        with Publisher(Config(), paths) as publisher:
            seqs += [publisher.publish(final(text)) for text in texts]
            publisher.publish(partial())
            events = publisher.replay(0)["events"]
            assert isinstance(events, list)
            messages = [decode(bytes(event)) for event in events]
            assert [message.seq for message in messages] == seqs
            return publisher.boot

    seqs: list[int] = []
    boots = [asyncio.run(life(texts, seqs)) for texts in (["a", "b"], ["c"], ["d", "e"])]
    assert len(set(boots)) == 3
    assert seqs == [1, 2, 4, 6, 7]  # the partials are numbered, not kept; a clean end leaves no gap


def test_two_daemons_on_one_journal(paths: Paths, tmp_path: Path) -> None:
    other = Paths(paths.models, paths.state, paths.cache, tmp_path / "run2", paths.keys)

    async def main() -> None:
        with (
            Publisher(Config(), paths),
            pytest.raises(PublishError, match="in use by another cosyd"),
            Publisher(Config(), other),
        ):
            pass
        assert not (other.runtime / "events.sock").exists()

    asyncio.run(main())


# --- a journal that fails ------------------------------------------------------------------------------


class Unwritable:
    """Stands before the journal's database and fails as a full disk does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        append = journal_module.Journal.append

        def failing(journal: journal_module.Journal, *event: object) -> None:
            if self.full:
                with journal._using():
                    raise sqlite3.OperationalError("database or disk is full")
            append(journal, *event)  # type: ignore[arg-type]

        monkeypatch.setattr(journal_module.Journal, "append", failing)


def test_finals_are_published_when_the_journal_fails(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Unwritable(monkeypatch)

    async def body(publisher: Publisher, subscribe: Subscribe) -> None:
        socket = subscribe("")
        await subscribed(publisher, socket)
        disk.full = True
        for text in "abc":
            publisher.publish(final(text))
        got = [await receive(socket) for _ in range(4)]
        finals = [message for message in got if isinstance(message, AsrFinal)]
        health = [message for message in got if isinstance(message, Health)]
        assert [message.text for message in finals] == ["a", "b", "c"]
        assert [(message.code, message.severity) for message in health] == [("journal_failed", "error")]
        assert "free space" in health[0].message
        assert publisher.statistics().unjournalled == 4  # the health event, too
        disk.full = False
        publisher.publish(final("d"))
        got = [await receive(socket) for _ in range(2)]
        assert [message.type for message in got] == ["asr.final", "health"]
        assert isinstance(got[1], Health)
        assert (got[1].code, got[1].details) == ("journal_recovered", {"unjournalled": 4})
        events = publisher.replay(0, topics=("asr.",))["events"]
        assert isinstance(events, list)
        assert len(events) == 1

    run(paths, body)


def test_a_failing_journal_is_reported_now_and_then(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Unwritable(monkeypatch)
    clock = itertools.count(0, 25)  # seconds; every report takes a few looks at the clock
    monkeypatch.setattr(publisher_module.time, "monotonic", lambda: next(clock))

    async def body(publisher: Publisher, _: Subscribe) -> None:
        disk.full = True
        for _ in range(20):
            publisher.publish(final())
        assert 2 <= publisher.statistics().published["health"] < 12

    run(paths, body)


def test_a_start_without_a_usable_state_folder(paths: Paths) -> None:
    paths.state.write_text("a file where the folder should be")

    async def body(publisher: Publisher, subscribe: Subscribe) -> None:
        socket = subscribe("asr.", "state")
        await subscribed(publisher, socket)
        publisher.publish(final("still published"))
        got = await receive(socket)
        assert isinstance(got, AsrFinal)
        assert publisher.statistics().published["health"] == 1
        with pytest.raises(PublishError, match="journal"):
            publisher.replay(0)

    run(paths, body)


def test_a_state_folder_that_comes_back(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers start at 1 without it, and go on after the journal's as soon as that can be read."""
    monkeypatch.setattr(journal_module, "RETRY_S", 0.0)

    async def first_life(publisher: Publisher, _: Subscribe) -> None:
        for _ in range(5):
            publisher.publish(final("old"))

    async def second_life(publisher: Publisher, _: Subscribe) -> None:
        assert publisher.publish(final("not kept")) < 5
        paths.state.unlink()
        away.rename(paths.state)
        assert publisher.publish(final("kept")) == 6
        events = publisher.replay(4)["events"]
        assert isinstance(events, list)
        texts = [message.text for event in events if isinstance(message := decode(bytes(event)), AsrFinal)]
        assert texts == ["old", "kept"]

    run(paths, first_life)
    away = paths.state.with_name("away")
    paths.state.rename(away)
    paths.state.write_text("a file where the folder should be")
    run(paths, second_life)
