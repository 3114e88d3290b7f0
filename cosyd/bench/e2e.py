"""The whole daemon, from a recording to a subscriber: latency, load, memory, start, soak."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from cosyd.bench import speech
from cosyd.bench.daemon import Daemon
from cosyd.bench.reel import make_reel, write_wav
from cosyd.bench.report import Report, number, percentiles
from cosyd.bench.session import Session, play
from cosyd.bench.speech import Clip
from cosyd.errors import CosydError
from cosyd.spec import FRAME

METHOD = """\
`cosyd run` as a process of its own, `file` sources, a subscriber in this process. What it understands is
measured by `cosyd bench wer`. **Latency**: in real time; from the end of the endpoint's silence to the
arrival of the final here. **Load**: processor seconds of all processes per second, in real time with
partials every 200 ms: clips without pauses between them, then faint noise in which nobody speaks.
**Start**: from starting the process to READY=1 on the notification socket, models in the page cache.
**Soak**: an hour of audio looped as fast as it is processed; growth is the median of the last quarter
against that of the third."""

READY_LIMIT_S = 60.0
HOUR_S = 3600.0


def run(quick: bool) -> dict[str, Any]:
    """Measure. ``quick``: a few clips and a short soak, about two minutes; the whole takes about 20."""
    report = Report("e2e", "The whole daemon", METHOD, quick)
    with tempfile.TemporaryDirectory(prefix="cosyd-bench-") as folder:
        bench = _Bench(report, Path(folder), quick)
        for step in (bench.latency, bench.load, bench.transcribe, bench.start, bench.soak):
            sys.stderr.write(f"e2e: {step.__name__}\n")
            step()
    return report.as_dict()


class _Bench:
    def __init__(self, report: Report, folder: Path, quick: bool) -> None:
        self._report = report
        self._folder = folder
        self._quick = quick
        self._clips = {name: list(speech.eval_clips(name, 4 if quick else None)) for name in speech.EVAL_SETS}
        self._rss_bytes = 0

    # --- time ---

    def latency(self) -> None:
        """In real time, with pauses."""
        clips = self._some("librispeech-other", 3, 25)
        reel = make_reel(self._folder / "latency.wav", clips)
        session = self._seen(play(reel.path, realtime=True))
        after_ms = after_endpoint_ms(session)
        finals, partials = percentiles(after_ms, (50, 95)), percentiles(session.partial_ms, (50, 95))
        count = f"{len(after_ms)} finals"
        self._report.add("end of silence → final, P50", finals[50], "ms", note=count)
        self._report.add("end of silence → final, P95", finals[95], "ms", target=150, note=count)
        count = f"{len(session.partial_ms)} partials"
        self._report.add("last sample → partial, P50", partials[50], "ms", note=count)
        self._report.add("last sample → partial, P95", partials[95], "ms", note=count)

    def load(self) -> None:
        """Share of one core, while someone speaks and while nobody does."""
        seconds = 15 if self._quick else 60
        clips = self._some("librispeech-other", 4, 12)
        talking = make_reel(self._folder / "talking.wav", clips, pause_s=0.0)
        hiss = (
            np.random.default_rng(1).normal(0, 1e-3, seconds * FRAME.rate_hz).astype(np.float32)
        )  # -60 dBFS
        silence = self._folder / "silence.wav"
        write_wav(silence, hiss)
        runs = 1 if self._quick else 3
        for title, path, target in (("someone speaks", talking.path, 30), ("silence", silence, 5)):
            shares = [self._seen(play(path, realtime=True)).cpu_share * 100 for _ in range(runs)]
            note = f"of one core, median of {runs}"
            self._report.add(f"processor, {title}", median(shares), "%", target=target, note=note)

    def transcribe(self) -> None:
        """``cosyd transcribe`` on one core, start-up included."""
        reel = make_reel(self._folder / "transcribe.wav", self._clips["librispeech-other"])
        command = [str(Path(sys.executable).with_name("cosyd")), "transcribe", "--json", str(reel.path)]
        if pin := shutil.which("taskset"):
            command = [pin, "--cpu-list", str(min(os.sched_getaffinity(0))), *command]
        factors = []
        for _ in range(1 if self._quick else 3):
            begin = time.monotonic()
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                raise CosydError(f"transcribe failed: {result.stderr.strip()}")
            factors.append((time.monotonic() - begin) / reel.seconds)
        note = f"{reel.seconds:.0f} s of audio on one core, start-up included"
        self._report.add("transcribe, real-time factor", median(factors), "", target=0.1, note=note)

    def start(self) -> None:
        """Process started → READY."""
        clip = self._folder / "start.wav"
        write_wav(clip, np.zeros(30 * FRAME.rate_hz, np.float32))
        times = [_seconds_to_ready(clip) for _ in range(2 if self._quick else 5)]
        self._report.add("start → READY", median(times), "s", target=3, note=f"median of {len(times)}")

    # --- memory ---

    def soak(self) -> None:
        """An hour of audio as fast as it goes: nothing grows."""
        audio_s = HOUR_S / 12 if self._quick else HOUR_S
        reel = make_reel(self._folder / "soak.wav", self._some("coffee-commands", 4, 40))
        segments_before = _segments()
        session = self._seen(play(reel.path, realtime=False, loop=True, stop_after_s=audio_s))
        wall_s = session.usage[-1][0]
        add = self._report.add
        minutes = f"{audio_s / 60:.0f} minutes of audio, {len(session.finals)} finals"
        add("soak, speed", audio_s / wall_s, "× real time", target=20, at_least=True, note=minutes)
        add("soak, growth of memory", growth(session, lambda u: u.rss_bytes / 1e6), "MB", target=1)
        add("soak, growth of descriptors", growth(session, lambda u: u.descriptors), "", target=0)
        add("soak, segments left in shared memory", len(_segments() - segments_before), "", target=0)
        add("soak, finals lost", session.lost, "", target=0)
        peak = "sum of the resident sets of all processes, highest of all runs; shared pages count twice"
        add("memory", self._rss_bytes / 1e6, "MB", target=600, note=peak)

    # --- common ---

    def _some(self, name: str, quick: int, full: int) -> list[Clip]:
        return self._clips[name][: quick if self._quick else full]

    def _seen(self, session: Session) -> Session:
        """Note the highest memory use of any run."""
        self._rss_bytes = max([self._rss_bytes, *(usage.rss_bytes for _, usage in session.usage)])
        return session


def after_endpoint_ms(session: Session) -> list[float]:
    """From the end of the endpoint's silence to the arrival, of finals that silence ended."""
    return [
        latency_ms
        for final, latency_ms in zip(session.finals, session.final_ms, strict=True)
        if final.reason in ("silence", "silence_short")
    ]


def growth(session: Session, of: Callable[[Any], float]) -> float:
    """Median of the last quarter of a run less that of the third."""
    values = [of(usage) for _, usage in session.usage[:-1]]
    quarter = max(1, len(values) // 4)
    return median(values[-quarter:]) - median(values[-2 * quarter : -quarter] or values[:1])


def _segments() -> set[str]:
    return {path.name for path in Path("/dev/shm").glob("cosyd-*")}


def _seconds_to_ready(recording: Path) -> float:
    source = {"name": "bench", "type": "file", "path": str(recording), "realtime": True}
    daemon = Daemon({"sources": [source]})
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifications:
        address = daemon.folder / "notify"
        notifications.bind(str(address))
        notifications.settimeout(READY_LIMIT_S)
        begin = time.monotonic()
        daemon.environment["NOTIFY_SOCKET"] = str(address)
        with daemon:
            while b"READY=1" not in _receive(notifications, daemon):
                pass
            return time.monotonic() - begin


def _receive(notifications: socket.socket, daemon: Daemon) -> bytes:
    try:
        return notifications.recv(4096)
    except TimeoutError as error:
        daemon.check()
        raise CosydError(f"the daemon is not ready after {number(READY_LIMIT_S)} s") from error
