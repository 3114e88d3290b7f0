"""``cosyd doctor``: each small check on made-up surroundings, and the whole on this machine."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from cosyd.cli.doctor import daemon as daemon_checks
from cosyd.cli.doctor import gpu, models, system
from cosyd.cli.doctor.audio import permission, sound_server
from cosyd.cli.doctor.check import Check, Setup
from cosyd.client import Level
from cosyd.config.load import Loaded
from cosyd.config.paths import SHARED_MEMORY
from cosyd.config.schema import Config, FrontendConfig, GpuConfig, SourceConfig
from cosyd.models.store import ModelStore


def statuses(checks: object) -> dict[str, str]:
    return {check.name: check.status for check in checks}  # type: ignore[attr-defined]


# --- the whole -----------------------------------------------------------------------------------------


def test_every_finding_has_a_message_and_every_fault_a_remedy(cosyd, tmp_path: Path) -> None:
    recording = tmp_path / "x.raw"
    recording.write_bytes(b"")
    arguments = ["--set=sources.mic.type=file", f"--set=sources.mic.path={recording}", "--quick"]
    done = cosyd("doctor", "--json", *arguments)
    report = json.loads(done.out)
    checks = [Check(**check) for check in report["checks"]]
    assert {check.name.split(".")[0] for check in checks} >= {
        "config", "audio", "models", "gpu", "folders", "memory", "systemd", "daemon",
    }  # fmt: skip
    assert all(check.message for check in checks)
    assert all(check.remedy for check in checks if check.status == "fail")
    assert len({check.name for check in checks}) == len(checks)
    failed = [check.name for check in checks if check.status == "fail"]
    assert "models.moonshine-tiny-en" in failed  # the store of this test is empty
    assert (done.code, report["ok"]) == (1, False)
    for_people = cosyd("doctor", *arguments).out
    assert for_people.splitlines()[-1] == f"{len(failed)} of {len(checks)} checks failed"
    assert "→ cosyd models pull moonshine-tiny-en" in for_people


def test_a_broken_configuration_is_one_finding_a_fault(cosyd, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("vad: {treshold: 1}\nlog: {level: loud}\n")
    report = json.loads(cosyd("doctor", "--quick", "--json", "-c", file).out)
    found = [check for check in report["checks"] if check["name"] == "config"]
    assert [check["status"] for check in found] == ["fail", "fail"]
    assert found[0]["message"].startswith(f"{file}:1: vad.treshold: unknown key")
    assert len(report["checks"]) > 5  # the rest is looked at all the same


# --- parts ---------------------------------------------------------------------------------------------


def test_folders(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    everybody = tmp_path / "open"
    everybody.mkdir()
    everybody.chmod(0o777)
    assert system.folder("x", tmp_path, "state").status == "ok"
    assert system.folder("x", tmp_path / "a" / "b", "state").message.endswith("will be made")
    assert system.folder("x", file / "a", "state").status == "fail"
    assert system.folder("x", everybody, "state").status == "warn"
    assert system.folder("x", Path("/proc/nowhere"), "state").name == "x"


def test_keys(tmp_path: Path) -> None:
    assert statuses(system.keys(tmp_path)) == {"keys.server": "fail"}
    secret = tmp_path / "server.key_secret"
    secret.write_text("")
    secret.chmod(0o644)
    assert statuses(system.keys(tmp_path)) == {"keys.server": "fail", "keys.clients": "warn"}
    secret.chmod(0o600)
    (tmp_path / "clients").mkdir()
    (tmp_path / "clients" / "a.key").write_text("")
    assert statuses(system.keys(tmp_path)) == {"keys.server": "ok", "keys.clients": "ok"}


def test_shared_memory(tmp_path: Path) -> None:
    assert system.shared_memory(SHARED_MEMORY, 1).status == "ok"
    assert system.shared_memory(SHARED_MEMORY, 1 << 60).status == "fail"
    assert system.shared_memory(tmp_path / "absent", 1).status == "fail"
    assert system.ring_bytes(SourceConfig(rate_hz=16_000, channels=2, buffer_s=10)) == 10 * 16_000 * 2 * 4


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ({"ActiveState": "active", "SubState": "running", "UnitFileState": "enabled"}, "ok"),
        ({"ActiveState": "inactive", "SubState": "dead", "UnitFileState": "disabled"}, "warn"),
        ({"ActiveState": "failed", "SubState": "failed", "Result": "watchdog"}, "fail"),
    ],
)
def test_the_unit(state: dict[str, str], status: str) -> None:
    assert system._unit(state).status == status


def test_sound_server(tmp_path: Path) -> None:
    def message(environ: dict[str, str]) -> str:
        (check,) = sound_server(environ, 4_000_000)
        assert check.status == "ok"
        return check.message

    assert message({}).startswith("no PulseAudio") or "/run/pulse" in message({})
    (tmp_path / "pulse").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "pulse/native"))
        assert message({"XDG_RUNTIME_DIR": str(tmp_path)}).endswith("pulse/native")


def test_permission(tmp_path: Path) -> None:
    assert statuses(permission(tmp_path / "absent")) == {"audio.cards": "warn"}
    (tmp_path / "pcmC0D0c").write_text("")
    (tmp_path / "pcmC0D0p").write_text("")
    assert statuses(permission(tmp_path)) == {"audio.permission": "ok"}


def test_models_that_are_needed() -> None:
    assert models.needed(Config()) == ["moonshine-tiny-en", "silero-vad-6", "dtln"]
    raw = FrontendConfig(denoise="off", vad_input="raw", asr_input="raw")
    assert models.needed(Config(frontend=raw)) == ["moonshine-tiny-en", "silero-vad-6"]


def test_models_are_whole_and_load(models_dir: Path) -> None:
    store = ModelStore(models_dir)
    assert models.model(store, "dtln").status == "ok"
    check = models.runtime(store, loadable=True)
    assert check.status == "ok"
    assert "loads networks" in check.message


def test_a_required_gpu_that_is_not_usable_fails() -> None:
    def found(**section: object) -> dict[str, str]:
        return statuses(gpu.examine(Setup(Loaded(Config(gpu=GpuConfig(**section))))))

    assert found(backend="cpu")["gpu.backend"] == "ok"
    assert found()["gpu.backend"] == "ok"
    if gpu.why_unusable() is not None:
        assert found(require_gpu=True)["gpu.backend"] == "fail"
        assert found(backend="cuda")["gpu.backend"] == "fail"


def test_the_state_of_a_running_source() -> None:
    source = {"name": "mic", "reason": "", "lost_frames": 0, "overruns": 0}
    assert daemon_checks.source_state({**source, "status": "listening"}).status == "ok"
    assert daemon_checks.source_state({**source, "status": "lost", "reason": "gone"}).status == "fail"
    assert daemon_checks.source_state({**source, "status": "listening", "overruns": 1}).status == "warn"


def test_a_running_daemon_is_asked_and_heard(cosyd, daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its microphones are not opened a second time; its levels tell which channels are silent."""
    status = {"pid": 7, "version": "9", "sources": [], "workers": []}
    monkeypatch.setattr("cosyd.cli.doctor.audio.signal", lambda _: pytest.fail("the microphone was opened"))
    with daemon(status=status) as running:
        stop = _every_50_ms(
            lambda: running.publish(Level(source="mic", rms_db=(-120.0, -40.0), peak_db=(-120.0, -30.0)))
        )
        try:
            report = json.loads(cosyd("doctor", "--json").out)
        finally:
            stop()
    found = {check["name"]: check for check in report["checks"]}
    assert found["daemon"]["message"] == "running, pid 7, version 9"
    assert found["daemon.signal.mic"]["message"] == "channel 0 silent"


def _every_50_ms(call):
    from threading import Event, Thread

    stop = Event()

    def work() -> None:
        while not stop.wait(0.05):
            call()

    thread = Thread(target=work)
    thread.start()

    def end() -> None:
        stop.set()
        thread.join()

    return end
