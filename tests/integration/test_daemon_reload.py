"""A running daemon takes a new configuration whole or not at all, and says which."""

from __future__ import annotations

import signal
import time

import pytest
import yaml
from listening import PATIENCE_S, Listening, is_

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def daemon(models_dir):
    """A daemon that loops over a recording, for as long as the tests take."""
    source = {
        "name": "talk",
        "type": "file",
        "path": str(models_dir / "demo-speech/beckett.wav"),
        "loop": True,
    }
    with Listening({"sources": [source]}) as run:
        run.until(is_("state", status="listening"))
        yield run


@pytest.fixture
def run(daemon):
    """It, listening, with no messages yet; afterwards its configuration is what it was."""
    before = daemon.daemon.config_file.read_text()
    deadline = time.monotonic() + PATIENCE_S
    while [s["status"] for s in daemon.control("status")["sources"]] != ["listening"]:
        assert time.monotonic() < deadline, daemon.log()
        time.sleep(0.1)
    daemon.messages.clear()
    yield daemon
    daemon.daemon.config_file.write_text(before)
    assert daemon.control("reload")["rejected"] == []
    assert daemon.daemon.process.poll() is None


def edit(run, change):
    """Save the configuration with ``change`` made to it, as an editor does: a new file renamed over it."""
    config = yaml.safe_load(run.daemon.config_file.read_text())
    change(config)
    saved = run.daemon.config_file.with_suffix(".tmp")
    saved.write_text(yaml.safe_dump(config))
    saved.rename(run.daemon.config_file)


def test_the_reply_lists_applied_and_needs_restart(run):
    def change(config):
        config["endpoint"] = {"silence_ms": 500}
        config["asr"] = {"threads": 2}

    edit(run, change)
    # Saving the file has the same effect; whichever comes first, nothing is left to apply for the other.
    reply = run.control("reload")
    assert reply["rejected"] == []
    assert set(reply["applied"]) <= {"endpoint.silence_ms"}
    assert reply["needs_restart"] == ["asr.threads"]


def test_a_broken_file_changes_nothing_and_is_explained(run):
    run.daemon.config_file.write_text("vad: {treshold: 0.5}\nsources: [\n")
    rejected = run.until(is_("health", code="reload_rejected"))
    assert str(run.daemon.config_file) in rejected["message"]
    assert run.control("status")["listening"]
    before = len(run.of("asr.final"))
    run.until(lambda m: len(run.of("asr.final")) > before)


def test_an_unknown_key_is_rejected_with_a_hint(run):
    edit(run, lambda config: config.update(vad={"treshold": 0.5}))
    reply = run.control("reload")
    assert len(reply["rejected"]) == 1
    assert "did you mean" in reply["rejected"][0]
    assert "threshold" in reply["rejected"][0]


def test_sources_come_and_go(run, models_dir):
    second = {"name": "two", "type": "file", "path": str(models_dir / "demo-speech/two_cities.wav")}
    edit(run, lambda config: config["sources"].append(second))
    run.until(is_("state", source="two", status="listening"))
    run.until(is_("asr.partial", source="two"))
    edit(run, lambda config: config["sources"].pop())
    run.until(is_("state", source="two", status="stopped"))
    assert [s["name"] for s in run.control("status")["sources"]] == ["talk"]
    final = [m for m in run.of("asr.final") if m["source"] == "two"][-1]
    assert final["reason"] == "shutdown"


def test_sighup_reloads(run):
    edit(run, lambda config: config["sources"][0].update(muted=True))
    run.daemon.process.send_signal(signal.SIGHUP)
    run.until(is_("state", status="muted"))
    assert run.daemon.process.poll() is None


def test_a_faulty_path_fails_the_source_not_the_daemon(run, models_dir):
    edit(run, lambda config: config["sources"][0].update(path="/no/such/recording.wav"))
    failed = run.until(is_("state", status="failed"))
    assert "/no/such/recording.wav" in failed["reason"]
    run.until(is_("health", code="source_failed"))
    assert run.control("status")["sources"][0]["status"] == "failed"
    path = str(models_dir / "demo-speech/beckett.wav")
    edit(run, lambda config: config["sources"][0].update(path=path))
    run.until(lambda m: is_("state", status="listening")(m) and m["seq"] > failed["seq"])
