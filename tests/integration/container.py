"""A throw-away machine with a real systemd, for testing the unit: systemd-nspawn over this machine's root.

The root file system is seen through an overlay whose changes live in memory and vanish with it. Instead of
the machine's usual services, a target of ours is booted. Commands are run by entering the namespaces of
its first process, so neither D-Bus nor a login is needed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

TARGET = "cosyd-test.target"
TARGET_UNIT = """\
[Unit]
Description=just enough of a machine to run one service
Requires=basic.target
After=basic.target
AllowIsolate=yes
"""
BOOT_S = 60  # takes 2 s; a limit only so that a machine that cannot boot is a skip and no hang
COMMAND_S = 60


class CannotBoot(Exception):
    """This machine cannot run a container; the text says why."""


@dataclass(frozen=True)
class Container:
    """A booted container: ``root`` is its file system as seen from here, ``leader`` its first process."""

    root: Path
    leader: int

    def run(self, *command: str, timeout_s: float = COMMAND_S) -> subprocess.CompletedProcess[str]:
        """Run a command inside, as root."""
        return subprocess.run(
            ["nsenter", "--target", str(self.leader), "--all", *command],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def write(self, path: str, content: str) -> None:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)


@contextmanager
def booted(files: dict[str, str], visible: list[Path]) -> Iterator[Container]:
    """A running container with ``files`` added; ``visible`` paths can be reached by every user in it."""
    _require_tools()
    with ExitStack() as stack:
        root = stack.enter_context(_overlay())
        seed = Container(root, 0)
        for path, content in {f"/etc/systemd/system/{TARGET}": TARGET_UNIT, **files}.items():
            seed.write(path, content)
        for path in visible:
            _let_through(root, path)
        leader = stack.enter_context(_nspawn(root, visible))
        yield Container(root, leader)


def _require_tools() -> None:
    if os.geteuid() != 0:
        raise CannotBoot("only root can boot a container")
    missing = [tool for tool in ("systemd-nspawn", "nsenter", "mount") if shutil.which(tool) is None]
    if missing:
        raise CannotBoot(f"{', '.join(missing)} not installed")


@contextmanager
def _overlay() -> Iterator[Path]:
    base = Path(tempfile.mkdtemp(prefix="cosyd-container-", dir="/dev/shm"))
    try:
        for name in ("upper", "work", "root"):
            (base / name).mkdir()
        root = base / "root"
        options = f"lowerdir=/,upperdir={base / 'upper'},workdir={base / 'work'}"
        mount = ["mount", "-t", "overlay", "overlay", "-o", options, str(root)]
        result = subprocess.run(mount, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise CannotBoot(f"no overlay over /: {result.stderr.strip()}")
        try:
            yield root
        finally:
            subprocess.run(["umount", "--lazy", str(root)], check=True)
    finally:
        shutil.rmtree(base)


def _let_through(root: Path, path: Path) -> None:
    """Open the way to ``path`` for everybody, in the overlay only; homes are often 0700."""
    for folder in path.parents:
        inside = root / str(folder).lstrip("/")
        if inside.is_dir():
            inside.chmod(inside.stat().st_mode | 0o055)


@contextmanager
def _nspawn(root: Path, visible: list[Path]) -> Iterator[int]:
    command = [
        "systemd-nspawn",
        "--quiet",
        "--boot",
        "--register=no",
        "--keep-unit",
        "--link-journal=no",
        "--private-network",
        "--console=pipe",
        f"--machine=cosyd-test-{os.getpid()}",
        f"--directory={root}",
        *(f"--bind-ro={path}" for path in visible),
        f"systemd.unit={TARGET}",
    ]
    with (
        tempfile.TemporaryFile("w+") as output,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output) as process,
    ):
        try:
            leader = _wait_for_boot(root, process)
            if leader is None:
                output.seek(0)
                raise CannotBoot(f"systemd-nspawn does not boot here: {output.read()[-500:].strip()}")
            yield leader
        finally:
            _power_off(process)


def _wait_for_boot(root: Path, process: subprocess.Popen[bytes]) -> int | None:
    """The container's first process once the target is reached; None when that does not happen."""
    deadline = time.monotonic() + BOOT_S
    while process.poll() is None and time.monotonic() < deadline:
        for child in psutil.Process(process.pid).children():
            state = Container(root, child.pid).run("systemctl", "is-active", TARGET)
            if state.stdout.strip() == "active":
                return child.pid
        time.sleep(0.1)
    return None


def _power_off(process: subprocess.Popen[bytes]) -> None:
    process.terminate()  # asks the container to halt
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
