"""The whole daemon on real speech: text comes out, and comes out once, whatever is killed meanwhile."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest
import soundfile
from listening import Listening, is_

from cosyd.config.paths import ring_path
from cosyd.errors import ControlError
from cosyd.publish.control_client import ControlClient
from cosyd.ring import RingReader, WriterState
from cosyd.runtime.debug_tap import tap_path

pytestmark = pytest.mark.timeout(180)

CUT_S = 2.4  # of the recording: in the middle of a sentence, so that only the end makes a final
# What is said in the recording (Samuel Beckett), as far as every recogniser agrees.
SAID = ("ever", "tried", "no matter", "again", "better")


@pytest.fixture
def beckett(models_dir):
    return models_dir / "demo-speech" / "beckett.wav"


def playing(path, **source):
    return {"sources": [{"name": "talk", "type": "file", "path": str(path), **source}]}


def words(text):
    return re.findall(r"[a-z']+", text.lower())


def assert_orderly(messages):
    """What holds of every run: seq without gaps, one final an utterance, promises kept."""
    seqs = [m["seq"] for m in messages]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    finals = [m for m in messages if m["type"] == "asr.final"]
    assert len({m["utt"] for m in finals}) == len(finals)
    assert [m["start"] for m in finals] == sorted(m["start"] for m in finals)
    for final in finals:
        for partial in messages:
            if partial["type"] == "asr.partial" and partial["utt"] == final["utt"]:
                assert final["text"].startswith(partial["stable"])


def test_speech_becomes_text(beckett):
    with Listening(playing(beckett)) as run:
        run.until(is_("state", status="ended"))
    text = " ".join(m["text"] for m in run.of("asr.final")).lower()
    assert all(phrase in text for phrase in SAID), text
    assert run.of("asr.partial")
    assert [m["event"] for m in run.of("vad")][:2] == ["start", "end"]
    assert {m["reason"] for m in run.of("asr.final")} <= {"silence", "end_of_stream"}
    assert_orderly(run.messages)


def test_as_fast_as_it_can_be_processed_nothing_is_lost(beckett):
    with Listening(playing(beckett, realtime=False)) as run:
        ended = run.until(is_("state", status="ended"))
    assert ended["sample"] == soundfile.info(beckett).frames
    text = " ".join(m["text"] for m in run.of("asr.final")).lower()
    assert all(phrase in text for phrase in SAID), text
    assert not [m for m in run.of("device") if m["event"] in ("gap", "overrun")]


def test_a_killed_recogniser_publishes_the_sentence_whole_and_once(beckett):
    with Listening(playing(beckett)) as run:
        partial = run.until(is_("asr.partial"))
        os.kill(run.pid("recognition"), signal.SIGKILL)
        run.until(is_("health", code="worker_restarted"))
        run.until(is_("state", status="ended"))
    finals = run.of("asr.final")
    interrupted = [m for m in finals if m["utt"] == partial["utt"]]
    assert len(interrupted) == 1
    assert interrupted[0]["text"].lower().startswith("ever tried")
    text = " ".join(m["text"] for m in finals).lower()
    assert all(phrase in text for phrase in SAID), text
    starts = [m for m in run.of("vad") if m["event"] == "start" and m["utt"] == partial["utt"]]
    assert len({m["sample"] for m in starts}) == len(starts)
    assert_orderly(run.messages)


def test_a_killed_capture_reports_its_gap_exactly(beckett):
    with Listening(playing(beckett)) as run:
        run.until(is_("asr.partial"))
        os.kill(run.pid("capture talk"), signal.SIGKILL)
        gap = run.until(is_("device", event="gap"))
        ended = run.until(is_("state", status="ended"))
    opened = [m for m in run.of("device") if m["event"] == "opened"]
    assert len(opened) == 2
    assert gap["frames"] > 0
    # The clock ran on over the gap: the device came back exactly where it ends.
    assert opened[1]["sample"] == gap["sample"] + gap["frames"]
    # A recording goes on as a microphone would: all of it is either heard or in the gap.
    assert ended["sample"] == soundfile.info(beckett).frames
    assert run.of("asr.final")
    assert_orderly(run.messages)


def cut(path, folder):
    samples, rate_hz = soundfile.read(
        path, frames=int(CUT_S * soundfile.info(path).samplerate), dtype="int16"
    )
    soundfile.write(folder / "cut.wav", samples, rate_hz)
    return folder / "cut.wav"


def test_a_recogniser_killed_after_the_end_still_publishes_the_final_once(beckett, tmp_path):
    """It has read all and is about to decode when it is killed (on a very busy machine: it has decoded)."""
    with Listening(playing(cut(beckett, tmp_path))) as run:
        run.until(is_("state", status="listening"))
        pid = run.pid("recognition")
        with RingReader.attach(ring_path(run.daemon.paths, "talk")) as reader:
            while reader.writer is not WriterState.CLOSED:
                reader.wait(0.01)
                reader.read(reader.capacity)
        os.kill(pid, signal.SIGKILL)
        run.until(is_("health", code="worker_restarted"))
        run.until(is_("state", status="ended"))
    finals = run.of("asr.final")
    assert [m["reason"] for m in finals] == ["end_of_stream"]
    assert finals[0]["text"].lower().startswith("ever tried")
    assert not ring_path(run.daemon.paths, "talk").exists()
    assert_orderly(run.messages)


def test_a_capture_killed_after_the_end_plays_nothing_again(beckett, tmp_path):
    with Listening(playing(cut(beckett, tmp_path), realtime=False)) as run:
        run.until(is_("state", status="ended"))
        os.kill(run.pid("capture talk"), signal.SIGKILL)
        restarting = run.until(is_("state", status="restarting"))
        run.until(lambda m: is_("state", status="ended")(m) and m["seq"] > restarting["seq"])
    assert [m["event"] for m in run.of("device")] == ["opened", "ended"]
    assert len(run.of("asr.final")) == 1
    assert not ring_path(run.daemon.paths, "talk").exists()


def test_after_everything_was_killed_the_recording_plays_from_its_start(beckett):
    """Case 35: the segment of the killed daemon is reclaimed, and not taken for one's own."""
    with Listening(playing(beckett)) as run:
        run.until(is_("asr.partial"))
        workers = [w["pid"] for w in run.control("status")["workers"]]
        os.killpg(run.daemon.process.pid, signal.SIGKILL)
        run.daemon.process.wait()
        for pid in workers:  # each of the group dies in its own time, the daemon perhaps first
            _wait_for_end(pid)
        ring = ring_path(run.daemon.paths, "talk")
        with RingReader.attach(ring) as reader:
            assert reader.writer is WriterState.DEAD
        killed = ring.stat().st_ino
        boot = run.messages[-1]["boot"]
        run.daemon.__enter__()  # the same folders again
        opened = run.until(lambda m: is_("device", event="opened")(m) and m["boot"] != boot)
        assert ring.stat().st_ino != killed
        run.until(lambda m: is_("state", status="ended")(m) and m["boot"] != boot)
    assert opened["sample"] == 0
    again = [m for m in run.messages if m["boot"] != boot]
    assert not [m for m in again if m["type"] == "device" and m["event"] == "gap"]
    text = " ".join(m["text"] for m in again if m["type"] == "asr.final").lower()
    assert text.startswith("ever tried") and all(phrase in text for phrase in SAID), text
    assert not ring.exists()


def test_a_killed_daemon_leaves_nothing_behind(beckett):
    with Listening(playing(beckett)) as run:
        run.until(is_("asr.partial"))
        pids = [w["pid"] for w in run.control("status")["workers"]]
        run.daemon.process.kill()
        run.daemon.process.wait()
        for pid in pids:
            _wait_for_end(pid)
    ring = ring_path(run.daemon.paths, "talk")
    assert not ring.exists()
    assert not tap_path(ring).exists()


def _wait_for_end(pid):
    for _ in range(600):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} outlives the daemon")


def test_mute_and_unmute(beckett):
    with Listening(playing(beckett)) as run:
        run.until(is_("asr.partial"))
        assert run.control("mute") == {"sources": ["talk"], "muted": True}
        run.until(is_("state", status="muted"))
        muted = run.until(is_("asr.final"))
        assert muted["reason"] == "muted"
        assert run.control("unmute", source="talk")["muted"] is False
        run.until(lambda m: is_("state", status="listening")(m) and m["seq"] > muted["seq"])
        with (
            ControlClient(run.daemon.control) as client,
            pytest.raises(ControlError, match="no source 'nose'"),
        ):
            client.request("mute", {"source": "nose"})
        run.until(is_("state", status="ended"))
    assert_orderly(run.messages)


def test_shutdown_by_command_publishes_what_is_open(beckett):
    with Listening(playing(beckett)) as run:
        run.until(is_("asr.partial"))
        run.control("shutdown")
        assert run.daemon.process.wait(60) == 0
    final = run.of("asr.final")[-1]
    assert final["reason"] == "shutdown"
    assert run.of("state")[-1]["status"] == "stopped"
