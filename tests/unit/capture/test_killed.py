"""kill -9 of a capture process: the next one adopts the ring and records exactly what was missed."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest
import soundfile
from capture_run import attach

from cosyd.ring import RingReader, WriterState

RATE_HZ = 16_000
CHILD = """
import dataclasses, json, pathlib, sys, threading
from cosyd.capture import Capture
from cosyd.config.schema import SourceConfig

def report(event):
    print(json.dumps({"event": type(event).__name__, **dataclasses.asdict(event)}), flush=True)

Capture(SourceConfig(**json.loads(sys.argv[1])), pathlib.Path(sys.argv[2])).run(threading.Event(), report)
"""


@contextlib.contextmanager
def capture(ring, **config) -> Iterator[subprocess.Popen]:
    config = {"type": "file", "loop": True, "buffer_s": 5} | config
    command = [sys.executable, "-c", CHILD, json.dumps(config), str(ring)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def event(process: subprocess.Popen, kind: str) -> dict:
    for line in process.stdout:
        if (found := json.loads(line))["event"] == kind:
            return found
    raise AssertionError(f"no {kind}")


def until_written(reader: RingReader, index: int) -> None:
    deadline = time.monotonic() + 20
    while reader.write_index < index:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "a.wav"
    soundfile.write(path, (np.arange(20_000) % 30_000).astype(np.int16), RATE_HZ)
    return path


def test_a_reader_hears_one_gap_of_the_right_length(tmp_path, recording):
    ring = tmp_path / "ring"
    with capture(ring, path=str(recording)) as first, attach(ring, 0) as reader:
        until_written(reader, 4_000)
        first.send_signal(signal.SIGKILL)
        first.wait()
        last_ns = reader.time_ns(reader.write_index)
        assert reader.writer is WriterState.DEAD
        with capture(ring, path=str(recording)) as second:
            gap, opened = event(second, "GapRecorded"), event(second, "DeviceOpened")
            until_written(reader, opened["sample"] + 1_600)
            before = reader.read(10**6)
            after = reader.read(10**6)
            resumed_ns = reader.time_ns(opened["sample"])
            assert reader.epoch == 2 and reader.lost_frames == 0
    assert opened["reopened"] and opened["sample"] == gap["sample"] + gap["frames"]
    assert (len(before.frames), after.gap) == (gap["sample"], gap["frames"])
    assert gap["frames"] == pytest.approx((resumed_ns - last_ns) * 1e-9 * RATE_HZ, abs=0.05 * RATE_HZ)
    assert after.frames[0, 0] == after.index % 20_000  # the recording has played on
    ring.unlink()


def test_as_fast_as_it_is_read_nothing_is_missing(tmp_path, recording):
    ring = tmp_path / "ring"
    heard = []

    def read(reader, frames):
        while sum(map(len, heard)) < frames:
            if (block := reader.read(1_000)) is not None:
                assert block.gap == block.lost == 0
                heard.append(block.frames[:, 0].copy())
            else:
                reader.wait(0.1)

    with capture(ring, path=str(recording), realtime=False) as first, attach(ring, 0) as reader:
        read(reader, 50_000)
        first.send_signal(signal.SIGKILL)
        first.wait()
        with capture(ring, path=str(recording), realtime=False):
            read(reader, 150_000)
    whole = np.concatenate(heard)
    np.testing.assert_array_equal(whole, np.arange(len(whole)) % 20_000)
    ring.unlink()
