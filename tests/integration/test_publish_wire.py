"""Publisher and subscribers in different processes: restarts, kills, slow subscribers, many of them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import zmq
from publishing import Daemon

from cosyd.client import (
    AnyMessage,
    AsrFinal,
    AsrPartial,
    AsyncClient,
    Client,
    ControlClient,
    ControlError,
    State,
)
from cosyd.publish import session
from cosyd.publish.curve import create_keys
from cosyd.publish.messages import decode

WAIT_S = 30.0  # only so that a failure does not hang


def texts_until(client: Client, last: str) -> list[str]:
    """The texts of finals up to that of ``last``."""
    texts = []
    while True:
        message = client.receive(WAIT_S)
        assert message is not None, f"nothing after {texts}"
        if isinstance(message, AsrFinal):
            texts.append(message.text)
            if message.text == last:
                return texts


def numbered(first: int, last: int) -> list[str]:
    return [f"final {number}" for number in range(first, last + 1)]


def await_subscription(client: Client) -> None:
    message = client.receive(WAIT_S)
    assert isinstance(message, State)


# --- the bytes, seen by a plain socket -----------------------------------------------------------------


def test_two_frames_for_a_plain_subscriber(daemon: Daemon) -> None:
    with zmq.Context() as context, context.socket(zmq.SUB) as socket:
        socket.linger = 0
        socket.subscribe("asr.final.mic")
        socket.subscribe("state")
        socket.connect(daemon.events)
        assert socket.poll(WAIT_S * 1000)
        assert socket.recv_multipart()[0] == b"state.mic"
        seq = daemon.tell("final to be or not")
        assert socket.poll(WAIT_S * 1000)
        topic, data = socket.recv_multipart()
        assert topic == b"asr.final.mic"
        assert data.startswith(f'{{"type":"asr.final","v":1,"source":"mic","seq":{seq},"n":1,'.encode())
        message = decode(data)
        assert isinstance(message, AsrFinal)
        assert message.text == "to be or not"


# --- nothing is missed and nothing comes twice ---------------------------------------------------------


def test_since_gives_what_was_before(daemon: Daemon) -> None:
    daemon.finals(*numbered(1, 20))  # three pages of replay
    with Client(daemon.events, daemon.control, since=0) as client:
        assert texts_until(client, "final 20") == numbered(1, 20)
        settled = client.settled
        daemon.finals("live")
        assert texts_until(client, "live") == ["live"]
    daemon.finals("meanwhile")
    with Client(daemon.events, daemon.control, since=settled) as client:
        assert texts_until(client, "meanwhile") == ["live", "meanwhile"]


def test_without_since_it_begins_now(daemon: Daemon) -> None:
    daemon.finals("before")
    with Client(daemon.events, daemon.control, topics=("asr.final", "state")) as client:
        await_subscription(client)
        daemon.finals("after")
        assert texts_until(client, "after") == ["after"]


def test_kill_and_restart_again_and_again(daemon: Daemon) -> None:
    """Each life publishes while the subscriber is away, and is killed; each final comes once, in order."""
    with Client(daemon.events, daemon.control, topics=("asr.", "state")) as client:
        await_subscription(client)
        daemon.finals(*numbered(1, 5))
        assert texts_until(client, "final 5") == numbered(1, 5)
        expected: list[str] = []
        for life in range(3):
            missed = numbered(life * 10 + 6, life * 10 + 15)
            daemon.finals(*missed[:5])
            daemon.kill()
            daemon.start()
            daemon.finals(*missed[5:])  # before the subscriber is connected again
            expected += missed
        assert texts_until(client, "final 35") == expected
        assert client.lost == 0


def test_killed_between_journal_and_publication(daemon: Daemon) -> None:
    with Client(daemon.events, daemon.control, topics=("asr.", "state")) as client:
        await_subscription(client)
        daemon.finals("first")
        assert texts_until(client, "first") == ["first"]
        assert daemon.tell("die kept but never sent") == ""
        assert daemon.wait() == -signal.SIGKILL
        daemon.start()
        daemon.finals("last")
        assert texts_until(client, "last") == ["kept but never sent", "last"]


def test_a_loss_shows_before_the_next_final(daemon: Daemon) -> None:
    """The state that a restarted daemon sends is enough; no further final is needed."""
    with Client(daemon.events, daemon.control, topics=("asr.", "state")) as client:
        await_subscription(client)
        daemon.tell("die the last word")
        daemon.wait()
        daemon.start()
        assert texts_until(client, "the last word") == ["the last word"]


def test_a_slow_reader_gets_its_finals_by_replay(tmp_path: Path) -> None:
    """More is published than all queues hold while the program is busy."""
    daemon = Daemon(tmp_path, '{"publish": {"high_water": 10}}')
    daemon.start()
    with Client(daemon.events, daemon.control, topics=("asr.", "state")) as client:
        await_subscription(client)
        daemon.tell("many 9000 4000 100000")  # 36 MB
        daemon.finals(*numbered(1, 30))
        partials = finals = 0
        texts = []
        while texts[-1:] != ["final 30"]:
            message = client.receive(0.5)
            if message is None:
                daemon.tell("partial to show the loss")
            partials += isinstance(message, AsrPartial)
            finals += isinstance(message, AsrFinal)
            texts += [message.text] if isinstance(message, AsrFinal) else []
        assert texts == numbered(1, 30)
        assert partials < 9_000
    assert daemon.wait() == 0


def test_without_control_losses_are_counted(daemon: Daemon) -> None:
    with Client(daemon.events, topics=("asr.", "state")) as client:
        await_subscription(client)
        daemon.finals("one")
        texts_until(client, "one")
        daemon.tell("die two")
        daemon.wait()
        daemon.start()
        daemon.finals("three")  # nobody is connected again yet
        while daemon.tell("subscriptions") == "0":
            client.receive(0.01)
        daemon.finals("four")
        assert texts_until(client, "four") == ["four"]
        assert client.lost == 1  # three; of an earlier start's two nobody knows


def test_a_refused_replay_ends_the_patience(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "REPLAY_TIMEOUT_S", 0.2)
    daemon.finals("before")
    wrong = daemon.control.replace("control.sock", "nobody.sock")
    with Client(daemon.events, wrong, since=0, patience_s=0.0) as client:
        with pytest.raises(ControlError, match=r"cannot be fetched: cosyd does not answer at .*nobody.sock"):
            while True:
                client.receive(WAIT_S)
        daemon.finals("after")
        assert texts_until(client, "after") == ["after"]  # it goes on without what was missed


def test_iteration_ends_after_silence(daemon: Daemon) -> None:
    daemon.finals("only")
    with Client(daemon.events, daemon.control, since=0, timeout_s=0.5) as client:
        assert [message.text for message in client if isinstance(message, AsrFinal)] == ["only"]


def test_async_client(daemon: Daemon) -> None:
    async def collect() -> list[AnyMessage]:
        got: list[AnyMessage] = []
        async with AsyncClient(daemon.events, daemon.control, since=0) as client:
            assert await client.receive(0.0) is None  # a limit that strikes at once loses nothing
            async for message in client:
                got.append(message)
                if isinstance(message, AsrFinal) and message.text == "final 20":
                    await asyncio.to_thread(daemon.kill)
                    await asyncio.to_thread(daemon.start)
                    await asyncio.to_thread(daemon.finals, "last")
                if isinstance(message, AsrFinal) and message.text == "last":
                    break
        return got

    daemon.finals(*numbered(1, 20))
    got = asyncio.run(collect())
    assert [message.text for message in got if isinstance(message, AsrFinal)] == [*numbered(1, 20), "last"]


def test_clients_leave_nothing_behind(daemon: Daemon) -> None:
    daemon.finals("x")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with Client(daemon.events, daemon.control, since=0) as client:
            texts_until(client, "x")
        client.close()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
    assert threading.active_count() == 1 or all(
        thread.daemon or thread is threading.main_thread() for thread in threading.enumerate()
    )


# --- over TCP, encrypted -------------------------------------------------------------------------------


def test_curve_for_events_and_control(tmp_path: Path) -> None:
    server, _ = create_keys(tmp_path / "keys", "server")
    _, secret = create_keys(tmp_path / "keys", "kitchen")
    local = '"endpoint": "tcp://127.0.0.1:*"'
    daemon = Daemon(tmp_path, f'{{"publish": {{{local}, "curve": true}}, "control": {{{local}}}}}')
    daemon.start()
    daemon.finals(*numbered(1, 10))
    with Client(daemon.events, daemon.control, since=0, server_key=server, secret_key=secret) as client:
        assert texts_until(client, "final 10") == numbered(1, 10)
    with ControlClient(daemon.control) as stranger, pytest.raises(ControlError, match="does not answer"):
        stranger.request("replay", {"since": 0}, timeout_s=0.3)
    assert daemon.wait() == 0


# --- subscribers hurt nobody (field cases 22 and 30) ---------------------------------------------------


def test_twenty_clients_that_come_and_go(daemon: Daemon) -> None:
    """They subscribe, ask for what was before, and leave without a word, some in the middle of a request."""
    count, clients = 100, 20
    over = threading.Event()

    def restless(seed: int) -> None:
        chance = random.Random(seed)
        while not over.is_set():
            with Client(daemon.events, daemon.control, since=chance.choice((None, 0))) as client:
                for _ in range(chance.randrange(8)):
                    client.receive(chance.uniform(0, 0.05))
            with zmq.Context() as context, context.socket(zmq.DEALER) as control:
                control.linger = 0
                control.connect(daemon.control)
                control.send(chance.choice((b'{"cmd": "replay", "since": 0}', b"\x00 no JSON")))
                control.poll(chance.choice((0, 50)))

    with (
        ThreadPoolExecutor(clients) as pool,
        Client(daemon.events, daemon.control, topics=("asr.final", "state")) as steady,
    ):
        try:
            crowd = [pool.submit(restless, seed) for seed in range(clients)]
            await_subscription(steady)
            for number in range(1, count + 1):
                daemon.tell(f"final final {number}")
                time.sleep(0.01)
            assert texts_until(steady, f"final {count}") == numbered(1, count)
        finally:
            over.set()
        for each in crowd:
            each.result()
    assert daemon.wait() == 0


def received(socket: zmq.Socket, count: int) -> list[int]:
    """The numbers of the next so many messages; fewer when one does not come."""
    numbers: list[int] = []
    while len(numbers) < count and socket.poll(WAIT_S * 1000):
        numbers.append(decode(socket.recv_multipart()[1]).n)
    return numbers


def test_a_slow_subscriber_hurts_nobody(daemon: Daemon) -> None:
    """A reads two messages a second, B all of them: B misses none, the publisher's memory stays bounded."""
    count, size, batch = 12_000, 4_096, 500
    with zmq.Context() as context, contextlib.ExitStack() as stack:
        slow, quick = (stack.enter_context(context.socket(zmq.SUB)) for _ in range(2))
        slow.rcvhwm = 10
        quick.rcvhwm = 0  # this one's own queue is not what is tested
        for socket in (slow, quick):
            socket.linger = 0
            socket.subscribe("asr.partial")
            socket.connect(daemon.events)
        while daemon.tell("subscriptions") != "2":
            time.sleep(0.01)
        before = int(daemon.tell("rss"))
        done = threading.Event()
        seen_slow: list[int] = []

        def read_slowly() -> None:
            while not done.wait(0.5):
                if slow.poll(0):
                    seen_slow.append(decode(slow.recv_multipart()[1]).n)

        reader = threading.Thread(target=read_slowly)
        reader.start()
        seen_quick: list[int] = []
        for _ in range(count // batch):  # so that B is never further behind than it may be, on any machine
            daemon.tell(f"many {batch} {size} 4000")
            seen_quick += received(quick, batch)
        done.set()
        reader.join()
        grown = int(daemon.tell("rss")) - before
        assert seen_quick == list(range(1, count + 1))
        while slow.poll(300):
            seen_slow.append(decode(slow.recv_multipart()[1]).n)
        assert len(seen_slow) < count  # it missed some, and the numbers show it
        assert grown < 0.6 * count * size
