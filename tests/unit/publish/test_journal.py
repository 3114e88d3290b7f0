"""Finals outlive the process; the file stays within its bounds; a broken disk stops nothing."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cosyd.errors import PublishError
from cosyd.publish import journal as journal_module
from cosyd.publish.journal import PAGE_BYTES, TRIM_EVERY, Journal

NOW = 1_700_000_000.0


def journal_at(path: Path, max_age_h: float = 168, max_mb: int = 64) -> Journal:
    return Journal(path, max_age_h=max_age_h, max_mb=max_mb)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    kept = journal_at(tmp_path / "state" / "journal.db")
    yield kept
    kept.close()


def test_since(journal: Journal) -> None:
    for seq in (3, 5, 8):
        journal.append(seq, "asr.final.mic", NOW, b"%d" % seq)
    assert journal.since(0).events == (b"3", b"5", b"8")
    assert journal.since(3).events == (b"5", b"8")
    assert journal.since(4, until=8).events == (b"5",)
    assert journal.since(8).events == ()
    assert journal.since(2**80).events == ()
    assert journal.newest() == 8


def test_since_by_topic(journal: Journal) -> None:
    for seq, topic in enumerate(["asr.final.mic", "device.mic", "asr.final.desk"], 1):
        journal.append(seq, topic, NOW, topic.encode())
    assert journal.since(0, topics=("asr.",)).events == (b"asr.final.mic", b"asr.final.desk")
    assert journal.since(0, topics=("asr.final.d", "device")).events == (b"device.mic", b"asr.final.desk")


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_pages_put_together_are_the_whole(journal: Journal, limit: int) -> None:
    for seq in range(1, 8):
        journal.append(seq, "asr.final.mic" if seq % 3 else "device.mic", NOW, b"%d" % seq)
    events: list[bytes] = []
    since, more = 0, True
    while more:
        page = journal.since(since, topics=("asr.",), limit=limit)
        assert len(page.events) <= limit
        events += page.events
        since, more = page.last, page.more
    assert events == [b"1", b"2", b"4", b"5", b"7"]
    assert since == 7


def test_a_page_is_bounded_in_bytes(journal: Journal) -> None:
    for seq in range(1, 6):
        journal.append(seq, "asr.final.mic", NOW, bytes(PAGE_BYTES // 2))
    page = journal.since(0)
    assert (len(page.events), page.last, page.more) == (2, 2, True)
    assert len(journal.since(4).events) == 1


def test_an_event_above_the_page_is_a_page_of_its_own(journal: Journal) -> None:
    journal.append(1, "asr.final.mic", NOW, bytes(PAGE_BYTES + 1))
    journal.append(2, "asr.final.mic", NOW, b"x")
    assert [len(event) for event in journal.since(0).events] == [PAGE_BYTES + 1]


def test_a_kill_right_after_append_loses_nothing(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from cosyd.publish.journal import Journal\n"
        "journal = Journal(Path(sys.argv[1]), max_age_h=1e6, max_mb=64)\n"
        "for seq in range(1, 101): journal.append(seq, 'asr.final.mic', 0.0, b'%d' % seq)\n"
        "os.kill(os.getpid(), 9)"
    )
    path = tmp_path / "journal.db"
    assert subprocess.run([sys.executable, "-c", script, str(path)], check=False).returncode == -9
    journal = journal_at(path)
    assert journal.since(0).events == tuple(b"%d" % seq for seq in range(1, 101))
    journal.close()


def test_age(tmp_path: Path) -> None:
    journal = journal_at(tmp_path / "j", max_age_h=1)
    journal.append(1, "asr.final.mic", NOW - 3_601, b"old")
    journal.append(2, "asr.final.mic", NOW - 3_599, b"young")
    journal.close()
    journal.append(3, "asr.final.mic", NOW, b"new")  # opened again: trims at once
    assert journal.since(0).events == (b"young", b"new")
    journal.close()


def test_size(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = journal_at(path, max_mb=1)
    event = bytes(2_000)
    for seq in range(1, 3_001):  # six times what fits
        journal.append(seq, "asr.final.mic", NOW, event)
    slack = TRIM_EVERY * 4_096 + 100_000
    assert journal.size_bytes() < 1_000_000 + slack
    files = sum(file.stat().st_size for file in tmp_path.iterdir() if file.suffix != ".db-shm")
    assert files < 1_000_000 + slack + 1_300_000  # the write-ahead log, and pages not given back yet
    kept = []
    since, more = 0, True
    while more:
        page = journal.since(since)
        kept += page.events
        since, more = page.last, page.more
    assert since == 3_000
    assert len(kept) > 300
    journal.close()


def test_a_smaller_bound_shrinks_the_file(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = journal_at(path, max_mb=8)
    for seq in range(1, 1_501):
        journal.append(seq, "asr.final.mic", NOW, bytes(4_000))
    journal.close()
    assert path.stat().st_size > 5_000_000
    journal = journal_at(path, max_mb=1)
    journal.append(1_501, "asr.final.mic", NOW, b"")
    journal.close()
    assert path.stat().st_size < 1_300_000


def test_permissions(journal: Journal, tmp_path: Path) -> None:
    journal.append(1, "asr.final.mic", NOW, b"x")
    assert (tmp_path / "state" / "journal.db").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("damage", [b"not a database, but long enough to be read as one" * 100, None])
def test_damage_is_moved_aside_with_one_line(
    tmp_path: Path, damage: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal.db"
    journal = journal_at(path)
    for seq in range(1, 200):
        journal.append(seq, "asr.final.mic", NOW, bytes(1_000))
    journal.close()
    whole = path.read_bytes()
    path.write_bytes(damage or whole[:8_192] + bytes(len(whole) - 8_192))
    journal.append(200, "asr.final.mic", NOW, b"after")
    assert journal.since(0).events == (b"after",)
    assert (tmp_path / "journal.db.damaged").exists()
    assert len(caplog.records) == 1
    assert f"kept as {tmp_path / 'journal.db.damaged'}" in caplog.text
    journal.close()


def test_damage_under_way(tmp_path: Path) -> None:
    """The file rots while it is open: the event at hand is reported lost, the next ones are kept."""
    path = tmp_path / "journal.db"
    journal = journal_at(path)
    for seq in range(1, 500):
        journal.append(seq, "asr.final.mic", NOW, bytes(4_000))
    with path.open("r+b") as file:
        file.write(b"\xff" * path.stat().st_size)
    path.with_name("journal.db-wal").write_bytes(b"")
    failures = 0
    for seq in range(500, 510):
        try:
            journal.append(seq, "asr.final.mic", NOW, b"x")
        except PublishError:
            failures += 1
    assert failures <= 1
    assert len(journal.since(499).events) >= 9
    journal.close()


def test_a_format_of_the_future_is_moved_aside(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version=99")
    database.close()
    journal = journal_at(path)
    journal.append(1, "asr.final.mic", NOW, b"x")
    assert journal.newest() == 1
    assert (tmp_path / "journal.db.damaged").exists()
    journal.close()


FILL = """
import resource, signal, sys
from pathlib import Path
from cosyd.errors import PublishError
from cosyd.publish.journal import Journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal(Path(sys.argv[1]), max_age_h=1e6, max_mb=64)
journal.append(1, "asr.final.mic", 0.0, b"before")
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
failed = []
for seq in range(2, 40):
    try:
        journal.append(seq, "asr.final.mic", 0.0, bytes(20_000))
    except PublishError as error:
        failed.append(seq)
        message = str(error)
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
journal.append(100, "asr.final.mic", 0.0, b"after")
events = journal.since(0).events
assert failed and "free space" in message and "\\n" not in message, (failed, message)
assert events[0] == b"before" and events[-1] == b"after"
assert len(events) == 40 - len(failed), (len(events), len(failed))
journal.close()
"""


def test_a_full_disk_fails_the_event_only_and_heals(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(tmp_path / "j")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "RETRY_S", 0.0)
    (tmp_path / "in-the-way").write_text("")
    journal = journal_at(tmp_path / "in-the-way" / "journal.db")
    for _ in range(2):
        with pytest.raises(PublishError, match=r"journal .*: cannot make its folder: .*; see that"):
            journal.append(1, "asr.final.mic", NOW, b"x")
    (tmp_path / "in-the-way").unlink()
    journal.append(1, "asr.final.mic", NOW, b"x")
    assert journal.newest() == 1
    journal.close()


def test_an_unusable_journal_is_not_opened_at_every_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = []
    monkeypatch.setattr(journal_module, "_connect", lambda path: attempts.append(path) or _cannot_open())
    journal = journal_at(tmp_path / "journal.db")
    for _ in range(5):
        with pytest.raises(PublishError, match="unable to open"):
            journal.append(1, "asr.final.mic", NOW, b"x")
    assert len(attempts) == 1


def _cannot_open() -> sqlite3.Connection:
    raise sqlite3.OperationalError("unable to open database file")
