"""The events socket seen from a plain SUB socket: stamps, subscriptions, states on subscribing."""

from __future__ import annotations

import asyncio

import pytest
import zmq
import zmq.asyncio
from publisher_rig import WAIT_S, Subscribe, final, nothing_comes, partial, receive, run, subscribed

from cosyd.config.paths import Paths
from cosyd.config.schema import Config
from cosyd.errors import PublishError
from cosyd.publish import publisher as publisher_module
from cosyd.publish.messages import AsrFinal, State, decode
from cosyd.publish.publisher import Publisher


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
