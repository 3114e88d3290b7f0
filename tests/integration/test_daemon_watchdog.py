"""What the service manager is told, by the real daemon over a real notification socket (field case 33)."""

from __future__ import annotations

import os
import queue
import signal
import socket
import threading
import time
from contextlib import suppress

import pytest
from listening import PATIENCE_S, Listening, is_

pytest.importorskip("systemd.daemon", reason="the systemd extra is not installed")
pytestmark = pytest.mark.timeout(180)

POLL_S = 0.05


class Manager:
    """The receiving end of sd_notify, always read: a full socket holds up who sends."""

    def __init__(self, path):
        self.environment = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "2000000"}
        self.lines = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(POLL_S)
        self._heard = queue.SimpleQueue()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def close(self):
        self._closing.set()
        self._thread.join()
        self._socket.close()

    def _read(self):
        while not self._closing.is_set():
            with suppress(TimeoutError):
                for line in self._socket.recv(65_536).decode().splitlines():
                    self._heard.put(line)

    def listen(self, seconds=0.0):
        """Take what comes for so long; the lines of that time."""
        heard = []
        deadline = time.monotonic() + seconds
        while True:
            try:
                heard.append(self._heard.get(timeout=POLL_S))
            except queue.Empty:
                if time.monotonic() >= deadline:
                    self.lines += heard
                    return heard

    def until(self, line):
        deadline = time.monotonic() + PATIENCE_S
        while line not in self.listen(0.1):
            assert time.monotonic() < deadline, (line, self.lines[-20:])


@pytest.fixture
def manager(tmp_path):
    manager = Manager(tmp_path / "notify")
    yield manager
    manager.close()


@pytest.fixture
def talk(models_dir):
    path = str(models_dir / "demo-speech" / "beckett.wav")
    return {"sources": [{"name": "talk", "type": "file", "path": path, "loop": True}]}


def test_ready_only_when_it_listens_then_pings_until_it_hangs(manager, talk):
    with Listening(talk, environment=manager.environment) as run:
        manager.until("READY=1")
        assert manager.lines.index("READY=1") > 0
        assert manager.lines[0] == "EXTEND_TIMEOUT_USEC=30000000"
        run.until(is_("state", status="listening"))
        manager.until("WATCHDOG=1")

        hung = run.pid("recognition")
        os.kill(hung, signal.SIGSTOP)
        killed = run.until(is_("health", code="worker_restarted"))
        assert "hung" in killed["message"]
        manager.until("WATCHDOG=1")  # again, by its successor
        assert run.pid("recognition") != hung
    manager.listen()
    assert "STOPPING=1" in manager.lines
    assert any(line.startswith("STATUS=moonshine-tiny-en; talk listening") for line in manager.lines)


def test_without_a_device_it_waits_and_is_not_ready(manager, models_dir):
    nothing = {"sources": [{"name": "mic", "type": "portaudio", "device": "no such microphone"}]}
    with Listening(nothing, environment=manager.environment) as run:
        lost = run.until(is_("state", status="lost"))
        assert "no such microphone" in lost["reason"]
        manager.listen(0.5)
        assert "READY=1" not in manager.lines
        assert "EXTEND_TIMEOUT_USEC=30000000" in manager.lines
        assert any("no such microphone" in line for line in manager.lines if line.startswith("STATUS="))


def test_sighup_tells_of_reloading(manager, talk):
    with Listening(talk, environment=manager.environment) as run:
        manager.until("READY=1")
        before = len(manager.lines)
        run.daemon.process.send_signal(signal.SIGHUP)
        manager.until("RELOADING=1")
        while "READY=1" not in manager.lines[before:]:
            manager.listen(0.1)
    told = manager.lines[before:]
    assert told.index("RELOADING=1") < told.index("READY=1")
