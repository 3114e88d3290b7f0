"""No number is ever given twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cosyd.errors import PublishError
from cosyd.publish.counter import RESERVE, WIDTH, Counter


def test_counts_from_one_without_gaps(tmp_path: Path) -> None:
    counter = Counter.open(tmp_path / "seq")
    assert [counter.next() for _ in range(5)] == [1, 2, 3, 4, 5]
    counter.close()
    counter.close()


def test_a_clean_end_leaves_no_gap(tmp_path: Path) -> None:
    for expected in (1, 2, 3):
        counter = Counter.open(tmp_path / "seq")
        assert counter.next() == expected
        counter.close()


def test_kill_jumps_ahead_and_never_repeats(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from cosyd.publish.counter import Counter\n"
        "counter = Counter.open(Path(sys.argv[1]))\n"
        "for _ in range(int(sys.argv[2])): number = counter.next()\n"
        "print(number, flush=True); os.kill(os.getpid(), 9)"
    )
    last = 0
    for numbers in (1, RESERVE + 1, 3):
        command = [sys.executable, "-c", script, str(tmp_path / "seq"), str(numbers)]
        given = int(subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout)
        assert given >= last + numbers
        last = given
    counter = Counter.open(tmp_path / "seq")
    assert last < counter.next() <= last + RESERVE + 1
    counter.close()


def test_goes_on_after_the_journal(tmp_path: Path) -> None:
    counter = Counter.open(tmp_path / "seq")
    counter.at_least(41)
    counter.at_least(7)
    assert counter.next() == 42
    counter.close()


def test_one_daemon_a_folder(tmp_path: Path) -> None:
    counter = Counter.open(tmp_path / "seq")
    with pytest.raises(PublishError, match="in use by another cosyd"):
        Counter.open(tmp_path / "seq")
    counter.close()
    Counter.open(tmp_path / "seq").close()


@pytest.mark.parametrize("damage", [b"x" * WIDTH, b"12", b"\0" * WIDTH])
def test_a_damaged_file_is_said_and_replaced(
    tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "seq"
    path.write_bytes(damage)
    counter = Counter.open(path)
    assert "damaged" in caplog.text
    counter.at_least(5)
    assert counter.next() == 6
    counter.close()
    assert int(path.read_bytes()[:WIDTH]) == 6


def test_counts_without_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "in-the-way").write_text("")
    counter = Counter.open(tmp_path / "in-the-way" / "seq")
    assert "start again" in caplog.text
    assert [counter.next(), counter.next()] == [1, 2]
    counter.close()
