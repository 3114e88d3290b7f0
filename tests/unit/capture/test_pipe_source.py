"""Raw PCM from a FIFO and from standard input."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from multiprocessing.connection import Connection

import numpy as np
import pytest
from capture_run import Run, attach, read_frames

from cosyd.capture import Capture
from cosyd.config.schema import SourceConfig
from cosyd.errors import AudioError, UnsupportedFormat
from cosyd.ring import WriterState
from cosyd.types import DeviceLost, DeviceOpened, GapRecorded, SourceEnded

RATE_HZ = 16_000


@pytest.fixture
def ring(tmp_path):
    return tmp_path / "mic.ring"


@pytest.fixture
def fifo(tmp_path):
    path = tmp_path / "audio.fifo"
    os.mkfifo(path)
    return path


def piping(path, ring, *, stdin: int = 0, **keys) -> Run:
    keys = {"rate_hz": RATE_HZ, "buffer_s": 2} | keys
    return Run(Capture(SourceConfig(type="pipe", path=str(path), **keys), ring, stdin=stdin).run)


def ramp(frames: int, first: int = 0) -> np.ndarray:
    return ((first + np.arange(frames)) % 30_000).astype("<i2")


def feed(path, data: bytes, piece: int) -> None:
    with path.open("wb", buffering=0) as pipe:
        for start in range(0, len(data), piece):
            pipe.write(data[start : start + piece])


@pytest.mark.parametrize("piece", [3, 4_095, 65_536])
def test_frames_that_come_in_parts_are_put_together(fifo, ring, piece):
    frames = 600 if piece == 3 else 5 * RATE_HZ  # more than the ring holds: the pipe is held back
    data = ramp(2 * frames).reshape(-1, 2)
    with piping(fifo, ring, channels=2) as run:
        run.wait_for(DeviceLost)
        feeder = threading.Thread(target=feed, args=(fifo, data.tobytes(), piece))
        feeder.start()
        with attach(ring, 0) as reader:
            heard = read_frames(reader, len(data))
            feeder.join()
            assert reader.lost_frames == 0
    np.testing.assert_array_equal(heard, data)


def test_a_writer_that_leaves_is_a_loss_and_the_next_one_a_reopening(fifo, ring):
    with piping(fifo, ring) as run:
        assert "waiting for a writer" in run.wait_for(DeviceLost).reason
        with attach(ring, 0) as reader:
            feed(fifo, ramp(1_000).tobytes() + b"x", 10**6)  # half a frame at the end
            first = read_frames(reader, 1_000)
            lost = run.wait_for(DeviceLost, 2)
            time.sleep(0.2)
            feed(fifo, ramp(500, first=7).tobytes(), 10**6)
            second = read_frames(reader, 500)
            opened = run.wait_for(DeviceOpened, 2)
            gap = run.wait_for(GapRecorded)
    np.testing.assert_array_equal(first[:, 0], ramp(1_000))
    np.testing.assert_array_equal(second[:, 0], ramp(500, first=7))  # no half frame was carried over
    assert lost.sample == 1_000 and "another writer" in lost.reason
    assert gap.sample == 1_000 and gap.frames >= 0.2 * RATE_HZ
    assert opened.reopened and opened.sample == gap.sample + gap.frames


def test_standard_input_ends_the_source(ring):
    read_end, write_end = os.pipe()
    try:
        with piping("-", ring, stdin=read_end, format="f32") as run, attach(ring, 0) as reader:
            samples = np.linspace(-1, 1, 3_000, dtype="<f4")
            os.write(write_end, samples.tobytes())
            heard = read_frames(reader, 3_000)
            assert run.of(SourceEnded) == []
            os.close(write_end)
            assert run.wait_for(SourceEnded).sample == 3_000
            run.until(lambda: not run.running)
            assert reader.writer is WriterState.CLOSED
        with piping("-", ring, stdin=read_end, format="f32") as again:  # a worker killed since
            again.until(lambda: not again.running)
        assert again.events == [SourceEnded(3_000)]
    finally:
        os.close(read_end)
    np.testing.assert_array_equal(heard[:, 0], samples)
    assert run.of(DeviceLost) == []


def test_stop_while_nobody_writes(fifo, ring):
    with piping(fifo, ring) as run:
        run.wait_for(DeviceLost)
        run.stop.set()
        run.until(lambda: not run.running)


CHILD = """
import threading
from pathlib import Path
from cosyd.capture import Capture

def main(connection, config, ring):
    Capture(config, Path(ring), stdin=connection.fileno()).run(threading.Event(), lambda event: None)
"""


def test_standard_input_of_the_parent_in_a_spawned_process(tmp_path, ring, monkeypatch):
    (tmp_path / "spawned_capture.py").write_text(CHILD)
    monkeypatch.syspath_prepend(tmp_path)
    import spawned_capture

    read_end, write_end = os.pipe()
    config = SourceConfig(type="pipe", path="-", rate_hz=RATE_HZ, buffer_s=2)
    with Connection(read_end, writable=False) as connection:
        process = multiprocessing.get_context("spawn").Process(
            target=spawned_capture.main, args=(connection, config, str(ring))
        )
        process.start()
    os.write(write_end, ramp(2_000).tobytes())
    with attach(ring, 0) as reader:
        heard = read_frames(reader, 2_000)
        os.close(write_end)
        reader.wait(0.1)
        process.join(20)
    assert process.exitcode == 0
    process.close()
    np.testing.assert_array_equal(heard[:, 0], ramp(2_000))


@pytest.mark.parametrize(
    ("path", "keys", "kind", "says"),
    [
        ("nowhere.fifo", {}, AudioError, "make it with mkfifo"),
        ("plain", {}, AudioError, "is not a FIFO"),
        ("audio.fifo", {"rate_hz": None}, UnsupportedFormat, "set rate_hz"),
    ],
)
def test_what_cannot_work_is_said_at_once(tmp_path, fifo, ring, path, keys, kind, says):
    (tmp_path / "plain").write_bytes(b"")
    with pytest.raises(kind, match=says), piping(tmp_path / path, ring, **keys) as run:
        run.until(lambda: not run.running)
