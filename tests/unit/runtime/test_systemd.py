"""The exact lines that systemd gets, and what happens without it."""

import os
import socket

import pytest

from cosyd.runtime.systemd import Notifier


@pytest.fixture
def lines():
    return []


def test_the_lines_of_a_life(lines):
    notifier = Notifier(lines.append)
    notifier.extend_start()
    notifier.ready("moonshine; mic listening")
    notifier.status("moonshine; mic listening")  # unchanged: not sent again
    notifier.status("moonshine; mic lost")
    notifier.ping()
    notifier.reloading(42)
    notifier.reloaded()
    notifier.stopping()
    assert lines == [
        "EXTEND_TIMEOUT_USEC=30000000",
        "READY=1\nSTATUS=moonshine; mic listening",
        "STATUS=moonshine; mic lost",
        "WATCHDOG=1",
        "RELOADING=1\nMONOTONIC_USEC=42",
        "READY=1",
        "STOPPING=1\nSTATUS=stopping",
    ]


@pytest.mark.parametrize(
    ("usec", "pid", "expected"),
    [("500000", "", 0.5), ("10000000", "mine", 10.0), ("500000", "1", None), ("", "", None), ("x", "", None)],
)
def test_the_watchdog_interval(monkeypatch, lines, usec, pid, expected):
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()) if pid == "mine" else pid)
    assert Notifier(lines.append).watchdog_s == expected


def test_without_a_service_manager_nothing_is_sent(monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notifier = Notifier()
    notifier.ready("x")
    assert notifier.watchdog_s is None


def test_a_real_notify_socket(monkeypatch, tmp_path):
    pytest.importorskip("systemd.daemon")
    path = tmp_path / "notify.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(path))
        receiver.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(path))
        Notifier().ready("up")
        assert receiver.recv(1000) == b"READY=1\nSTATUS=up"
