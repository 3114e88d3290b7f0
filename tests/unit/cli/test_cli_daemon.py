"""``cosyd sub`` and ``cosyd ctl`` against the real sockets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cosyd.client import AsrFinal, State
from cosyd.errors import ControlError

STATUS = {
    "version": "9.9",
    "pid": 7,
    "uptime_s": 3725.0,
    "listening": True,
    "healthy": False,
    "model": "m",
    "backends": {"asr": {"name": "cpu", "reason": "no GPU"}, "vad": {"name": "cpu", "reason": "why"}},
    "sources": [
        {
            "name": "mic", "type": "portaudio", "status": "lost", "reason": "unplugged", "muted": False,
            "device": "USB", "rate_hz": 48_000, "channels": 2, "format": "s16", "sample": 4_800_000,
            "behind_s": 0.25, "vad_prob": 0.5, "overruns": 2, "lost_frames": 960, "drift_ppm": -12.3,
            "utt": 3,
        }
    ],
    "workers": [
        {
            "name": "recognition", "state": "running", "pid": 8, "restarts": 2, "crash_loop": True,
            "last_error": "boom",
        }
    ],
    "publisher": {
        "address": "ipc:///x", "boot": "b", "seq": 42, "published": {}, "unjournalled": 1, "subscriptions": 1,
    },
}  # fmt: skip


def final(text: str) -> AsrFinal:
    return AsrFinal(source="mic", utt=1, text=text, start=0.5, end=2.0, reason="silence")


def test_status_for_people(cosyd, daemon) -> None:
    with daemon(status=STATUS):
        done = cosyd("ctl", "status")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "cosyd 9.9, listening, not healthy, up 1:02:05, pid 7",
        "model m",
        "  asr  cpu  no GPU",
        "  vad  cpu  why",
        "source mic: lost: unplugged",
        "  USB, 48000 Hz, 2 ch, s16",
        "  1:40 heard, 0.25 s behind, speech 0.50, drift -12 ppm",
        "  2 overruns, 960 frames lost",
        "worker recognition: running, 2 restarts, keeps crashing",
        "  boom",
        "published 42 events at ipc:///x",
        "  1 events could not be journalled",
    ]


def test_status_as_it_is(cosyd, daemon) -> None:
    with daemon(status=STATUS):
        assert json.loads(cosyd("ctl", "status", "--json").out) == {"ok": True, **STATUS}


def test_reload_lists_what_became_of_each_key(cosyd, daemon) -> None:
    reply = {"applied": ["vad.threshold"], "needs_restart": ["asr.model"], "rejected": []}
    with daemon(reload=reply):
        done = cosyd("ctl", "reload")
    assert (done.code, done.out) == (0, "applied: vad.threshold\nneeds a restart: asr.model\n")


def test_a_rejected_reload_is_1(cosyd, daemon) -> None:
    with daemon(reload={"applied": [], "needs_restart": [], "rejected": ["f:3: vad: wrong"]}):
        done = cosyd("ctl", "reload")
    assert (done.code, done.out, done.err) == (
        1,
        "rejected: f:3: vad: wrong\n",
        "cosyd: nothing was changed\n",
    )


def test_a_reload_without_changes(cosyd, daemon) -> None:
    with daemon(reload={"applied": [], "needs_restart": [], "rejected": []}):
        assert cosyd("ctl", "reload").out == "nothing to change\n"


def test_mute_and_unmute_pass_the_source_on(cosyd, daemon) -> None:
    replies = {"mute": {"sources": ["mic"], "muted": True}, "unmute": {"sources": ["a", "b"], "muted": False}}
    with daemon(**replies) as running:
        assert cosyd("ctl", "mute", "mic").out == "mic: muted\n"
        assert cosyd("ctl", "unmute").out == "a: recognised again\nb: recognised again\n"
    assert [(name, params.source) for name, params in running.requests] == [("mute", "mic"), ("unmute", None)]


def test_hotwords_tell_what_was_rejected(cosyd, daemon) -> None:
    """Field case 23: nothing is ignored without a word."""
    reply = {
        "accepted": ["good"],
        "rejected": [{"phrase": "BAD", "reason": "in capitals"}],
        "hotwords": ["good"],
    }
    with daemon(hotwords=reply) as running:
        done = cosyd("ctl", "hotwords", "good", "BAD")
        assert cosyd("ctl", "hotwords", "--clear").code == 1
        assert cosyd("ctl", "hotwords", "--clear", "x").code == 2
        cosyd("ctl", "hotwords")
    assert done.code == 1
    assert done.out == "rejected: BAD: in capitals\naccepted: good\nin effect: good\n"
    assert [params.set for _, params in running.requests] == [("good", "BAD"), (), None]


def test_hotwords_are_added_removed_and_listed(cosyd, daemon) -> None:
    reply = {"accepted": [], "rejected": [], "hotwords": ["a"], "sources": {"mic": ["b:2", "c"]}}
    with daemon(hotwords=reply) as running:
        shown = cosyd("ctl", "hotwords", "list").out
        cosyd("ctl", "hotwords", "add", "flat white:2", "latte", "--source", "mic")
        cosyd("ctl", "hotwords", "remove", "latte")
        cosyd("ctl", "hotwords", "set", "add")  # a phrase that is a verb
        cosyd("ctl", "hotwords", "clear", "--source", "mic")
        assert [
            cosyd("ctl", "hotwords", *wrong).code for wrong in (["add"], ["clear", "x"], ["list", "x"])
        ] == [2] * 3
    assert shown == "in effect: a\non mic besides: b:2, c\n"
    asked = [(params.set, params.add, params.remove, params.source) for _, params in running.requests]
    assert asked == [
        (None, (), (), None),
        (None, ("flat white:2", "latte"), (), "mic"),
        (None, (), ("latte",), None),
        (("add",), (), (), None),
        ((), (), (), "mic"),
    ]


def test_shutdown(cosyd, daemon) -> None:
    with daemon(shutdown={}):
        assert cosyd("ctl", "shutdown").out == "the daemon is ending\n"


def test_a_refusal_is_the_daemons_own_words(cosyd, daemon) -> None:
    with daemon(mute=ControlError("no source 'x'; there are mic")):
        done = cosyd("ctl", "mute", "x")
    assert (done.code, done.out, done.err) == (1, "", "cosyd: no source 'x'; there are mic\n")


def test_no_daemon_is_1_and_says_where_it_was_looked_for(cosyd, tmp_path: Path) -> None:
    done = cosyd("ctl", "status", "--timeout", "0.2")
    assert done.code == 1
    assert done.err.startswith(f"cosyd: cosyd does not answer at ipc://{tmp_path}/runtime/control.sock")


def test_connect_names_another_daemon(cosyd, daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with daemon(shutdown={}):
        monkeypatch.setenv("COSYD_PATHS__RUNTIME", "/nowhere")
        address = f"ipc://{tmp_path}/runtime/control.sock"
        assert cosyd("ctl", "shutdown", "--connect", address).code == 0


def test_replay_reads_all_pages(cosyd, daemon) -> None:
    with daemon() as running:
        first = running.publish(final("0"))
        for number in range(1, 6):
            running.publish(final(str(number)))
        done = cosyd("ctl", "replay", "--since", first, "--json")
        people = cosyd("ctl", "replay", "--since", first + 4)
    assert [json.loads(line)["text"] for line in done.out.splitlines()] == ["1", "2", "3", "4", "5"]
    assert people.out.strip().endswith("asr.final    mic  0.50–2.00 s  5  (silence, 0 ms)")


def test_sub_prints_events_as_json_lines(cosyd, daemon) -> None:
    with daemon() as running:
        running.publish(State(source="mic", status="listening"))
        done = cosyd("sub", "state", "--json", "--count", "1")
    assert (done.code, done.err) == (0, "")
    message = json.loads(done.out)
    assert (message["type"], message["source"], message["status"]) == ("state", "mic", "listening")


def test_sub_for_people(cosyd, daemon) -> None:
    with daemon() as running:
        running.publish(State(source="mic", status="listening"))
        assert cosyd("sub", "--count", "1").out.endswith("state        mic  listening\n")


def test_sub_says_that_it_waits(cosyd, tmp_path: Path) -> None:
    done = cosyd("sub", "--count", "0")
    assert done.err.startswith(f"cosyd: no daemon at ipc://{tmp_path}/runtime/events.sock yet")


def test_keys_are_made_once(cosyd, tmp_path: Path) -> None:
    done = cosyd("keys", "server")
    assert (
        done.out == f"public key: {tmp_path}/keys/server.key\nsecret key: {tmp_path}/keys/server.key_secret\n"
    )
    assert (tmp_path / "keys/server.key_secret").stat().st_mode & 0o777 == 0o600
    again = cosyd("keys", "server")
    assert again.code == 1
    assert "exists already" in again.err


def test_curve_keys_that_are_missing_are_told(cosyd, tmp_path: Path) -> None:
    done = cosyd("sub", "--connect", "tcp://127.0.0.1:1", "--set", "publish.curve=true")
    assert done.code == 1
    assert str(tmp_path / "keys/server.key") in done.err
