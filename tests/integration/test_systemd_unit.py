"""cosyd.service under a real systemd: ready, status, reload, hang, watchdog, stop."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from container import CannotBoot, Container, booted

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_S = 60  # only to end a test that would wait forever
CONFIG = "/etc/cosyd/cosyd.yaml"
EVENTS = "ipc:///run/cosyd/events.sock"
CONTROL = "ipc:///run/cosyd/control.sock"

pytestmark = pytest.mark.timeout(180)


def configuration(models: Path, threshold: float = 0.6) -> str:
    return f"""\
sources:
  - name: speech
    type: file
    path: {models / "demo-speech" / "two_cities.wav"}
    loop: true
paths:
  models: {models}
vad:
  threshold: {threshold}
"""


def drop_in(visible: list[Path]) -> str:
    """Run this checkout instead of /opt/cosyd, let the service see it, and be quicker to lose patience."""
    binds = "\n".join(f"BindReadOnlyPaths={path}" for path in visible)
    return f"""\
[Service]
ExecStart=
ExecStart={Path(sys.prefix) / "bin" / "cosyd"} run
ProtectHome=tmpfs
{binds}
WatchdogSec=4
"""


@pytest.fixture(scope="module")
def machine(models_dir: Path) -> Iterator[Container]:
    pytest.importorskip("systemd.daemon")
    visible = sorted({REPOSITORY, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve(), models_dir})
    units = REPOSITORY / "systemd"
    files = {
        "/etc/systemd/system/cosyd.service": (units / "cosyd.service").read_text(),
        "/etc/systemd/system/cosyd.service.d/test.conf": drop_in(visible),
        "/etc/sysusers.d/cosyd.conf": (units / "cosyd.sysusers").read_text(),
        "/etc/tmpfiles.d/cosyd.conf": (units / "cosyd.tmpfiles").read_text(),
    }
    try:
        with booted(files, visible) as container:
            yield container
    except CannotBoot as reason:
        pytest.skip(str(reason))


class Service:
    """cosyd.service in the container."""

    def __init__(self, machine: Container, models: Path) -> None:
        self.machine = machine
        self.models = models

    def configure(self, text: str) -> None:
        self.machine.write(CONFIG, text)

    def systemctl(self, verb: str) -> int:
        return self.machine.run("systemctl", verb, "cosyd", timeout_s=PATIENCE_S).returncode

    def show(self, key: str) -> str:
        return self.machine.run("systemctl", "show", "--value", f"--property={key}", "cosyd").stdout.strip()

    def status(self) -> dict[str, object]:
        reply = self.cosyd("ctl", "status", "--json", "--connect", CONTROL)
        return dict(json.loads(reply))

    def cosyd(self, *arguments: str) -> str:
        program = Path(sys.prefix) / "bin" / "cosyd"
        result = self.machine.run(str(program), *arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def processes(self) -> list[int]:
        """Process numbers of the service as the container counts them."""
        listed = self.machine.run("pgrep", "-u", "cosyd")
        return [int(pid) for pid in listed.stdout.split()]

    def log(self) -> str:
        journal = self.machine.run("journalctl", "-u", "cosyd", "--no-pager", "-n", "60", "-o", "cat")
        return journal.stdout

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"{what} did not happen; the log:\n{self.log()}"
            time.sleep(0.2)


@pytest.fixture
def service(machine: Container, models_dir: Path) -> Iterator[Service]:
    """Ready, with the usual configuration. A test that leaves it well leaves it to the next one."""
    service = Service(machine, models_dir)
    service.configure(configuration(models_dir))
    if service.show("ActiveState") == "active":
        assert service.systemctl("reload") == 0
    else:
        machine.run("systemctl", "reset-failed", "cosyd")
        assert service.systemctl("start") == 0, service.log()
    yield service
    if service.show("ActiveState") != "active":
        service.systemctl("stop")


def test_start_returns_when_it_listens_and_says_so(machine: Container, models_dir: Path) -> None:
    service = Service(machine, models_dir)
    service.systemctl("stop")
    service.configure(configuration(models_dir))
    assert service.systemctl("start") == 0, service.log()
    assert service.show("ActiveState") == "active"
    assert service.show("StatusText") != ""
    assert "speech" in service.cosyd("ctl", "status", "--connect", CONTROL)


def test_text_reaches_a_subscriber(service: Service) -> None:
    sub = [
        "timeout",
        str(PATIENCE_S),
        str(Path(sys.prefix) / "bin" / "cosyd"),
        "sub",
        "asr",
        "--json",
        "--connect",
        EVENTS,
    ]
    first_line = service.machine.run("sh", "-c", '"$@" | head -n 1', "sh", *sub, timeout_s=PATIENCE_S + 10)
    message = json.loads(first_line.stdout)
    assert message["source"] == "speech"
    assert message["text"]


def test_strangers_reach_no_socket(service: Service) -> None:
    folder = service.machine.run("stat", "--format=%a %U %G", "/run/cosyd").stdout.split()
    assert folder == ["750", "cosyd", "cosyd"]
    refused = service.machine.run("setpriv", "--reuid=65534", "--clear-groups", "ls", "/run/cosyd")
    assert refused.returncode != 0


def test_reload_applies_in_the_same_process(service: Service) -> None:
    before = service.show("MainPID")
    service.configure(configuration(service.models, threshold=0.55))
    assert service.systemctl("reload") == 0
    service.wait(lambda: "vad.threshold" in service.log(), "the reload")
    assert service.show("MainPID") == before
    assert service.show("ActiveState") == "active"


def test_reload_of_a_broken_file_changes_nothing(service: Service) -> None:
    before = service.show("MainPID")
    service.configure("vad: {treshold: 0.5}\n")
    service.systemctl("reload")
    service.wait(lambda: "treshold" in service.log(), "the refusal")
    assert service.show("MainPID") == before
    assert service.show("ActiveState") == "active"


def test_hung_worker_is_replaced(service: Service) -> None:
    """A stopped recogniser is replaced by the daemon, or, should that fail, the watchdog replaces all."""
    before = set(service.processes())
    main = int(service.show("MainPID"))
    worker = _largest(service, before - {main})
    service.machine.run("kill", f"-{signal.SIGSTOP.value}", str(worker))
    service.wait(lambda: worker not in service.processes(), "the end of the hung worker")
    service.wait(lambda: len(service.processes()) >= len(before), "the start of its successor")
    service.wait(lambda: service.show("ActiveState") == "active", "being well again")


def test_watchdog_replaces_a_hung_daemon(service: Service) -> None:
    before = service.show("MainPID")
    restarts = int(service.show("NRestarts"))
    service.machine.run("kill", f"-{signal.SIGSTOP.value}", before)
    service.wait(lambda: int(service.show("NRestarts")) == restarts + 1, "the watchdog")
    service.wait(lambda: service.show("ActiveState") == "active", "the new start")
    assert service.show("MainPID") != before
    assert "watchdog" in service.log().lower()


def test_stop_leaves_nothing(service: Service) -> None:
    assert service.systemctl("stop") == 0
    assert service.show("Result") == "success"
    assert service.show("ExecMainStatus") == "0"
    assert service.processes() == []
    left = service.machine.run("sh", "-c", "ls -d /run/cosyd /dev/shm/cosyd-*.ring 2>/dev/null")
    assert left.stdout == ""


def test_wrong_configuration_is_not_tried_again(machine: Container, models_dir: Path) -> None:
    service = Service(machine, models_dir)
    service.systemctl("stop")
    service.configure("vad: {treshold: 0.5}\n")
    assert service.systemctl("start") != 0
    assert service.show("ExecMainStatus") == "2"
    service.wait(lambda: service.show("ActiveState") == "failed", "giving up")
    assert service.show("NRestarts") == "0"
    assert "did you mean 'threshold'" in service.log()


def _largest(service: Service, pids: set[int]) -> int:
    """The recogniser: no other process of the daemon holds the models."""

    def resident(pid: int) -> int:
        line = service.machine.run("cat", f"/proc/{pid}/statm").stdout.split()
        return int(line[1]) if line else 0

    return max(pids, key=resident)
