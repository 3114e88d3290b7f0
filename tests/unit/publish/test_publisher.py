"""The events socket seen from a plain SUB socket: stamps, states on subscribing, a journal that fails."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import zmq
import zmq.asyncio

from cosyd.config.paths import Paths
from cosyd.config.schema import Config, PublishConfig
from cosyd.errors import PublishError
from cosyd.publish import journal as journal_module
from cosyd.publish import publisher as publisher_module
from cosyd.publish.curve import ClientKeys, create_keys
from cosyd.publish.messages import AnyMessage, AsrFinal, AsrPartial, Health, State, decode
from cosyd.publish.publisher import Publisher

WAIT_S = 20.0  # only so that a failure does not hang
QUIET_S = 0.3  # how long a test waits for what must not come

Subscribe = Callable[..., zmq.asyncio.Socket]
Body = Callable[[Publisher, Subscribe], Awaitable[None]]


def final(text: str = "hello", source: str = "mic") -> AsrFinal:
    return AsrFinal(source=source, utt=1, text=text, start=0.0, end=1.0, reason="silence")


def partial() -> AsrPartial:
    return AsrPartial(source="mic", utt=1, text="hel", start=0.0, end=1.0)


def run(paths: Paths, body: Body, config: PublishConfig | None = None) -> None:
    async def main() -> None:
        with (
            Publisher(Config(publish=config or PublishConfig()), paths) as publisher,
            zmq.asyncio.Context() as context,
        ):
            sockets: list[zmq.asyncio.Socket] = []

            def subscribe(*topics: str, keys: ClientKeys | None = None) -> zmq.asyncio.Socket:
                socket = context.socket(zmq.SUB)
                sockets.append(socket)
                socket.linger = 0
                if keys:
                    keys.apply(socket)
                for topic in topics:
                    socket.subscribe(topic)
                socket.connect(publisher.address)
                return socket

            try:
                await body(publisher, subscribe)
            finally:
                for socket in sockets:
                    socket.close()

    asyncio.run(main())


async def receive(socket: zmq.asyncio.Socket) -> AnyMessage:
    topic, data = await asyncio.wait_for(socket.recv_multipart(), WAIT_S)
    message = decode(data)
    assert message.topic == topic.decode()
    return message


async def subscribed(publisher: Publisher, socket: zmq.asyncio.Socket) -> None:
    """Wait until a subscription is in force, and read what was said of that."""
    while publisher.statistics().subscriptions == 0:
        await asyncio.sleep(0.005)
    marker = publisher.publish(State(source="mic", status="listening"))
    while (await receive(socket)).seq != marker:
        pass


async def nothing_comes(socket: zmq.asyncio.Socket) -> None:
    assert not await socket.poll(int(QUIET_S * 1000))


def test_stamps(paths: Paths) -> None:
    async def body(publisher: Publisher, subscribe: Subscribe) -> None:
        socket = subscribe("")
        await subscribed(publisher, socket)
        sent = [publisher.publish(m) for m in (final(), partial(), final(), final(source="desk"))]
        got = [await receive(socket) for _ in range(4)]
        assert [message.seq for message in got] == sent
        assert sent == list(range(sent[0], sent[0] + 4))
        assert [message.n for message in got] == [1, 1, 2, 1]
        assert [message.kept for message in got] == [0, sent[0], sent[0], sent[2]]
        assert {message.boot for message in got} == {publisher.boot}
        times = [message.t_mono_ns for message in got]
        assert times == sorted(times)
        assert all(message.t_wall > 1e9 for message in got)

    run(paths, body)


def test_prefixes_select_by_type_and_source(paths: Paths) -> None:
    async def body(publisher: Publisher, subscribe: Subscribe) -> None:
        socket = subscribe("asr.final.mic", "state")
        await subscribed(publisher, socket)
        for message in (partial(), final("other", "desk"), final("mine")):
            publisher.publish(message)
        got = await receive(socket)
        assert isinstance(got, AsrFinal)
        assert got.text == "mine"

    run(paths, body)


def test_a_new_subscriber_gets_the_state_of_each_matching_source(paths: Paths) -> None:
    """Nothing is published after it came: what it gets is the answer to its subscription."""

    async def body(publisher: Publisher, subscribe: Subscribe) -> None:
        publisher.publish(State(source="mic", status="opening"))
        publisher.publish(State(source="mic", status="listening"))
        publisher.publish(State(source="desk", status="lost", reason="unplugged"))
        everything, mic, final_only = subscribe("state"), subscribe("state.mic"), subscribe("asr.final")
        states = {message.source: message for message in [await receive(everything) for _ in range(2)]}
        assert isinstance(states["mic"], State)
        assert states["mic"].status == "listening"
        assert isinstance(states["desk"], State)
        assert (states["desk"].status, states["desk"].reason) == ("lost", "unplugged")
        assert (await receive(mic)).source == "mic"
        await nothing_comes(final_only)
        publisher.forget("desk")
        late = subscribe("state")
        assert (await receive(late)).source == "mic"
        await nothing_comes(late)

    run(paths, body)


def test_a_second_subscriber_to_the_same_topic_is_answered_too(paths: Paths) -> None:
    async def body(publisher: Publisher, subscribe: Subscribe) -> None:
        publisher.publish(State(source="mic", status="listening"))
        for _ in range(3):
            await receive(subscribe("state"))
        assert publisher.statistics().subscriptions == 3

    run(paths, body)


def test_first_messages_are_not_lost(paths: Paths) -> None:
    """Field case 31: what is published while the subscriber connects can be had by the state's ``kept``."""

    async def body(publisher: Publisher, subscribe: Subscribe) -> None:
        publisher.publish(State(source="mic", status="listening"))
        socket = subscribe("asr.final", "state")
        published = [publisher.publish(final(str(number))) for number in range(5)]
        live: list[int] = []
        while not isinstance(message := await receive(socket), State):
            live.append(message.seq)  # it got through between two looks at the subscriptions
        page = publisher.replay(0, until=message.seq, topics=("asr.final",))
        events = page["events"]
        assert isinstance(events, list)
        assert page["more"] is False
        kept = [decode(bytes(event)).seq for event in events]
        assert message.kept == (kept[-1] if kept else 0)
        live += [(await receive(socket)).seq for _ in published[len(kept) :]]
        assert sorted({*kept, *live}) == published

    run(paths, body)


def test_states_are_repeated(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher_module, "STATE_REPEAT_S", 0.02)

    async def body(publisher: Publisher, subscribe: Subscribe) -> None:
        socket = subscribe("state")
        await subscribed(publisher, socket)
        for _ in range(3):
            assert isinstance(await receive(socket), State)

    run(paths, body)


def test_subscribers_that_send_nonsense(paths: Paths) -> None:
    async def body(publisher: Publisher, subscribe: Subscribe) -> None:
        publisher.publish(State(source="mic", status="listening"))
        with zmq.asyncio.Context() as context, context.socket(zmq.XSUB) as rude:
            rude.linger = 0
            rude.connect(publisher.address)
            for frame in (b"\x02what", b"", b"\x00never", b"\x01\xff\xfe", b"\x01state"):
                await rude.send(frame)
            topic, _ = await asyncio.wait_for(rude.recv_multipart(), WAIT_S)
            assert topic == b"state.mic"
            await rude.send(b"\x01" + bytes(publisher_module.MAX_INBOUND_BYTES))
            assert isinstance(await receive(subscribe("state")), State)  # the publisher lives on

    run(paths, body)


def test_a_flood_of_subscriptions_is_answered_in_turns(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher_module, "MAX_SUBSCRIPTIONS_A_TURN", 3)

    async def body(publisher: Publisher, subscribe: Subscribe) -> None:
        publisher.publish(State(source="mic", status="listening"))
        socket = subscribe(*(f"topic{number}" for number in range(50)), "zzz", "state")
        assert isinstance(await receive(socket), State)
        publisher.publish(AsrFinal(source="x", utt=1, text="", start=0, end=0, reason=""))
        while publisher.statistics().subscriptions < 52:
            await asyncio.sleep(0.01)

    run(paths, body)


def test_after_close(paths: Paths) -> None:
    async def main() -> None:
        with Publisher(Config(), paths) as publisher:
            publisher.publish(final())
        publisher.close()
        with pytest.raises(PublishError, match="is closed"):
            publisher.publish(final())
        assert not (paths.runtime / "events.sock").exists()

    asyncio.run(main())


def test_the_last_final_leaves_before_the_end(paths: Paths) -> None:
    """Published and closed at once: the subscriber gets it all the same."""

    async def main() -> None:
        with zmq.asyncio.Context() as context, context.socket(zmq.SUB) as socket:
            with Publisher(Config(), paths) as publisher:
                socket.subscribe("")
                socket.connect(publisher.address)
                await subscribed(publisher, socket)
                for number in range(50):
                    publisher.publish(final(str(number)))
            for number in range(50):
                while not isinstance(message := await receive(socket), AsrFinal):
                    pass
                assert message.text == str(number)

    asyncio.run(main())


# --- restarts ------------------------------------------------------------------------------------------


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


# --- TCP and CURVE -------------------------------------------------------------------------------------

CURVE = PublishConfig(endpoint="tcp://127.0.0.1:*", curve=True)


def test_loopback_needs_no_keys(paths: Paths) -> None:
    async def body(publisher: Publisher, subscribe: Subscribe) -> None:
        assert publisher.address.startswith("tcp://127.0.0.1:")
        await subscribed(publisher, subscribe("state"))

    run(paths, body, PublishConfig(endpoint="tcp://127.0.0.1:*"))


@pytest.mark.parametrize("endpoint", ["tcp://0.0.0.0:0", "tcp://*:*", "tcp://[::]:0"])
def test_a_public_bind_without_keys_is_refused(paths: Paths, endpoint: str) -> None:
    async def main() -> None:
        config = Config(publish=PublishConfig(endpoint=endpoint))
        with pytest.raises(PublishError, match=r"set publish.curve: true"), Publisher(config, paths):
            pass

    asyncio.run(main())


def test_curve_without_a_key(paths: Paths) -> None:
    async def main() -> None:
        with (
            pytest.raises(PublishError, match=r"no .*server.key_secret"),
            Publisher(Config(publish=CURVE), paths),
        ):
            pass

    asyncio.run(main())


def test_curve_admits_known_clients_only(paths: Paths, tmp_path: Path) -> None:
    server, _ = create_keys(paths.keys, "server")
    known, secret = create_keys(paths.keys, "kitchen")
    _, stranger = create_keys(tmp_path / "elsewhere", "kitchen")
    wrong_server, _ = create_keys(tmp_path / "elsewhere", "server")

    async def body(publisher: Publisher, subscribe: Subscribe) -> None:
        publisher.publish(State(source="mic", status="listening"))
        assert isinstance(await receive(subscribe("state", keys=ClientKeys.load(server, secret))), State)
        refused = [
            subscribe("state"),
            subscribe("state", keys=ClientKeys.load(server, stranger)),
            subscribe("state", keys=ClientKeys.load(wrong_server, secret)),
        ]
        for socket in refused:
            await nothing_comes(socket)
        known.unlink()  # not admitted any more, without a restart
        await nothing_comes(subscribe("state", keys=ClientKeys.load(server, secret)))

    run(paths, body, CURVE)
