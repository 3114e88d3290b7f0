"""The journal of finals: what was published and can be asked for again.

SQLite in write-ahead mode. Each event is committed before it is published, so a process killed in between
loses nothing. ``synchronous`` is NORMAL: the commit reaches the kernel, not necessarily the disk. A power
cut can therefore take the last events (those since the last checkpoint), never the file's integrity; a sync
at each final would cost 10–100 ms of latency on an SD card, and its life.

Bounds: events older than ``max_age_h`` by the wall clock, and the oldest beyond ``max_mb``, are deleted.
Deleted pages are used again, so the file stays at its size.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cosyd.errors import PublishError

SCHEMA_VERSION = 1
TRIM_EVERY = 64  # appends between looks at age and size: at most that many events over the bounds
TRIM_SHARE = 16  # when too large, one part in so many goes at once, so that trimming is rare
WAL_PAGES = 250  # pages (1 MB) after which the log goes into the file; bounds the log
PAGE_EVENTS = 1_000  # most events of one page of a replay
PAGE_BYTES = 1_000_000  # and their most bytes
RETRY_S = 1.0  # pause between attempts to open a journal that could not be opened
BUSY_MS = 100  # how long another process that reads the file (sqlite3, a backup) may delay a final
PRAGMAS = (
    "auto_vacuum=INCREMENTAL",
    "journal_mode=WAL",
    "synchronous=NORMAL",
    f"wal_autocheckpoint={WAL_PAGES}",
    "journal_size_limit=4000000",  # bytes of the log that are left on disk after a burst
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Page:
    """Events in order, as they were published. ``last``: everything up to it has been looked at.
    ``more``: there may be further ones after ``last``."""

    events: tuple[bytes, ...]
    last: int
    more: bool


class Journal:
    """Opened at first use. An event that cannot be kept leaves the others as they are, and the next is tried.

    Every method raises PublishError when the disk does not let it do its work.
    """

    def __init__(self, path: Path, *, max_age_h: float, max_mb: int) -> None:
        self._path = path
        self._max_age_s = max_age_h * 3600
        self._max_bytes = max_mb * 1_000_000
        self._database: sqlite3.Connection | None = None
        self._retry_at = 0.0
        self._why_not = ""
        self._until_trim = 0

    def append(self, seq: int, topic: str, t_wall: float, data: bytes) -> None:
        """Keep one event; it survives the death of this process from here on."""
        with self._using() as database:
            if self._until_trim == 0:
                self._trim(database, t_wall)
                self._until_trim = TRIM_EVERY
            database.execute("INSERT INTO events VALUES (?, ?, ?, ?)", (seq, topic, t_wall, data))
            self._until_trim -= 1

    def since(
        self,
        seq: int,
        *,
        until: int | None = None,
        topics: tuple[str, ...] = ("",),
        limit: int = PAGE_EVENTS,
    ) -> Page:
        """The kept events after ``seq`` and before ``until`` whose topic begins with one of ``topics``."""
        with self._using() as database:
            rows = database.execute(
                "SELECT seq, topic, data FROM events WHERE seq > ? AND seq < ? ORDER BY seq",
                (_bounded(seq), 2**63 - 1 if until is None else _bounded(until)),
            )
            return _page(rows, seq, topics, max(1, min(limit, PAGE_EVENTS)))

    def newest(self) -> int:
        """``seq`` of the newest event; 0 when there is none."""
        with self._using() as database:
            return int(database.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0])

    def size_bytes(self) -> int:
        """What the kept events take."""
        with self._using() as database:
            return _used_bytes(database)

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    @contextlib.contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        """The open database. What goes wrong inside becomes PublishError; damage starts a new file."""
        try:
            if self._database is None:
                self._database = self._open()
            yield self._database
        except sqlite3.Error as error:
            if _is_damage(error):
                self.close()
                self._set_aside(error)
            raise PublishError(f"journal {self._path}: {error}; {_remedy(error)}") from error

    def _open(self) -> sqlite3.Connection:
        if time.monotonic() < self._retry_at:
            raise sqlite3.OperationalError(self._why_not)
        try:
            database = self._connect()
        except sqlite3.Error as error:
            self._retry_at, self._why_not = time.monotonic() + RETRY_S, str(error)
            raise
        self._until_trim = 0
        return database

    def _connect(self) -> sqlite3.Connection:
        try:
            return _connect(self._path)
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise
            self._set_aside(error)
            return _connect(self._path)

    def _set_aside(self, error: sqlite3.Error) -> None:
        """Rename a damaged file (one is kept, for whoever wants to salvage it) and drop its log."""
        aside = self._path.with_name(self._path.name + ".damaged")
        try:
            self._path.replace(aside)
            for suffix in ("-wal", "-shm"):
                self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        except OSError as failure:
            log.error("journal %s is damaged and cannot be moved: %s", self._path, failure.strerror)
            return
        log.error("journal %s was damaged (%s); kept as %s, starting a new one", self._path, error, aside)

    def _trim(self, database: sqlite3.Connection, now: float) -> None:
        database.execute("DELETE FROM events WHERE t_wall < ?", (now - self._max_age_s,))
        while _used_bytes(database) > self._max_bytes:
            count = database.execute("SELECT count(*) FROM events").fetchone()[0]
            if count == 0:
                return
            database.execute(
                "DELETE FROM events WHERE seq IN (SELECT seq FROM events ORDER BY seq LIMIT ?)",
                (-(-count // TRIM_SHARE),),
            )
        # gives back what a smaller bound has freed; executescript, for the pragma frees one page a step
        database.executescript("PRAGMA incremental_vacuum")


def _connect(path: Path) -> sqlite3.Connection:
    """Open or make the file, and see that it is sound."""
    try:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    except OSError as error:
        raise sqlite3.OperationalError(f"cannot make its folder: {error.strerror}") from error
    # autocommit: each append is its own transaction
    database = sqlite3.connect(path, isolation_level=None, timeout=BUSY_MS / 1000)
    try:
        path.chmod(0o640)  # what people said is not for everybody; the log takes over the mode
        for pragma in PRAGMAS:
            database.execute(f"PRAGMA {pragma}")
        verdict = database.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise sqlite3.DatabaseError(f"malformed: {verdict}")
        _make_tables(database)
    except sqlite3.Error:
        database.close()
        raise
    except OSError as error:
        database.close()
        raise sqlite3.OperationalError(str(error)) from error
    return database


def _make_tables(database: sqlite3.Connection) -> None:
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if version not in (0, SCHEMA_VERSION):
        raise sqlite3.DatabaseError(
            f"malformed: its format is {version}, this version reads {SCHEMA_VERSION}"
        )
    database.execute(
        "CREATE TABLE IF NOT EXISTS events"
        " (seq INTEGER PRIMARY KEY, topic TEXT NOT NULL, t_wall REAL NOT NULL, data BLOB NOT NULL)"
    )
    database.execute("CREATE INDEX IF NOT EXISTS events_by_time ON events (t_wall)")
    database.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def _used_bytes(database: sqlite3.Connection) -> int:
    pages, free, size = (
        database.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def _page(rows: sqlite3.Cursor, after: int, topics: tuple[str, ...], limit: int) -> Page:
    events: list[bytes] = []
    total, last = 0, after
    for seq, topic, data in rows:
        if topic.startswith(topics):
            if events and (len(events) == limit or total + len(data) > PAGE_BYTES):
                return Page(tuple(events), last, more=True)
            events.append(data)
            total += len(data)
        last = seq
    return Page(tuple(events), last, more=False)


def _bounded(seq: int) -> int:
    """SQLite's integers have 64 bits."""
    return max(-1, min(seq, 2**63 - 1))


def _is_damage(error: sqlite3.Error) -> bool:
    """Whether the file is at fault. The names of error codes came with Python 3.11, so the text decides."""
    return "malformed" in str(error) or "not a database" in str(error)


def _remedy(error: sqlite3.Error) -> str:
    text = str(error)
    if "full" in text or "I/O" in text:
        return "free space on that disk; results go on being published but cannot be replayed"
    if "malformed" in text or "not a database" in text:
        return "a new one is started"
    return "see that the folder is there and writable; results go on being published but cannot be replayed"
