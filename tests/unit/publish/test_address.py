"""What may be bound, and what a bound ipc socket looks like on disk."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
import zmq

from cosyd.errors import PublishError
from cosyd.publish.address import bind, check_address, is_loopback

Context = zmq.Context[zmq.Socket[bytes]]


@pytest.fixture
def context() -> Iterator[Context]:
    made: Context = zmq.Context()
    yield made
    made.term()


@pytest.mark.parametrize(
    "address",
    ["tcp://127.0.0.1:5556", "tcp://127.1.2.3:*", "tcp://[::1]:5556", "tcp://localhost:5556", "ipc:///run/x"],
)
def test_private_addresses_need_no_keys(address: str) -> None:
    check_address(address, "publish.endpoint", curve=False)


@pytest.mark.parametrize(
    "address",
    ["tcp://0.0.0.0:5556", "tcp://*:5556", "tcp://[::]:5556", "tcp://eth0:5556", "tcp://192.168.1.5:5556",
     "tcp://box.example:5556", "tcp://127.0.0.1.example.com:5556"],
)  # fmt: skip
def test_public_addresses_need_keys(address: str) -> None:
    with pytest.raises(PublishError, match=r"publish.endpoint: .*set publish.curve: true"):
        check_address(address, "publish.endpoint", curve=False)
    check_address(address, "publish.endpoint", curve=True)
    assert not is_loopback(address)


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("ipc://@name", "open to every user"),
        ("ipc://relative", "absolute path"),
        ("ipc:///" + "x" * 107, "longer than 107"),
        ("inproc://x", "neither ipc://PATH nor tcp://HOST:PORT"),
        ("/run/x.sock", "neither"),
        ("", "neither"),
    ],
)
def test_other_addresses_are_refused(address: str, complaint: str) -> None:
    with pytest.raises(PublishError, match=complaint):
        check_address(address, "publish.endpoint", curve=True)


def test_ipc_is_for_owner_and_group(context: Context, tmp_path: Path) -> None:
    path = tmp_path / "run" / "events.sock"
    binding = bind(context.socket(zmq.XPUB), f"ipc://{path}", "k", None)
    assert path.stat().st_mode & 0o777 == 0o660
    assert path.parent.stat().st_mode & 0o777 == 0o750
    binding.close(0)
    binding.close(0)
    assert not path.exists()


def test_a_second_daemon_is_told(context: Context, tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/events.sock"
    binding = bind(context.socket(zmq.XPUB), address, "k", None)
    with pytest.raises(PublishError, match="another cosyd is running on"):
        bind(context.socket(zmq.XPUB), address, "k", None)
    assert (tmp_path / "events.sock").exists()
    binding.close(0)


def test_the_file_of_a_dead_daemon_is_replaced(context: Context, tmp_path: Path) -> None:
    path = tmp_path / "events.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
        dead.listen()
    binding = bind(context.socket(zmq.XPUB), f"ipc://{path}", "k", None)
    assert path.stat().st_mode & 0o777 == 0o660
    binding.close(0)


def test_something_else_in_the_way_is_not_removed(context: Context, tmp_path: Path) -> None:
    path = tmp_path / "events.sock"
    path.write_text("precious")
    with pytest.raises(PublishError, match="in the way"):
        bind(context.socket(zmq.XPUB), f"ipc://{path}", "k", None)
    assert path.read_text() == "precious"


def test_a_socket_that_a_successor_made_is_left(context: Context, tmp_path: Path) -> None:
    path = tmp_path / "events.sock"
    binding = bind(context.socket(zmq.XPUB), f"ipc://{path}", "k", None)
    path.rename(tmp_path / "moved")
    with socket.socket(socket.AF_UNIX) as successor:
        successor.bind(str(path))
        binding.close(0)
        assert path.exists()


def test_a_port_in_use(context: Context) -> None:
    first = bind(context.socket(zmq.XPUB), "tcp://127.0.0.1:*", "publish.endpoint", None)
    assert not first.address.endswith("*")
    with pytest.raises(PublishError, match=r"publish.endpoint: cannot bind .* choose another port"):
        bind(context.socket(zmq.XPUB), first.address, "publish.endpoint", None)
    first.close(0)


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1", "tcp://127.0.0.1:port", "tcp://127.0.0.1:99999", "tcp://5556"]
)
def test_addresses_that_make_no_sense(context: Context, address: str) -> None:
    with pytest.raises(PublishError, match="write tcp://HOST:PORT, with a port"):
        bind(context.socket(zmq.XPUB), address, "publish.endpoint", None)


RACER = """
import sys, zmq
from cosyd.errors import PublishError
from cosyd.publish.address import bind
context = zmq.Context()
print("ready", flush=True)
sys.stdin.readline()
try:
    binding = bind(context.socket(zmq.XPUB), sys.argv[1], "k", None)
    print("won", flush=True)
    sys.stdin.readline()
    binding.close(0)
except PublishError:
    print("lost", flush=True)
context.term()
"""


def test_of_daemons_that_start_together_one_wins(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RACER, f"ipc://{tmp_path}/events.sock"]
    with contextlib.ExitStack() as stack:
        racers = [
            stack.enter_context(Popen(command, stdin=PIPE, stdout=PIPE, text=True, bufsize=1))
            for _ in range(3)
        ]
        assert [_line(racer) for racer in racers] == ["ready"] * 3
        for racer in racers:
            _go(racer)
        assert sorted(_line(racer) for racer in racers) == ["lost", "lost", "won"]
        for racer in racers:
            with contextlib.suppress(BrokenPipeError):
                _go(racer)


def _line(racer: Popen[str]) -> str:
    assert racer.stdout
    return racer.stdout.readline().strip()


def _go(racer: Popen[str]) -> None:
    assert racer.stdin
    racer.stdin.write("\n")
