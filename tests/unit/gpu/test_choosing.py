"""What the configuration asks for, what the machine has, and what is said of it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from cosyd.cli.doctor import gpu as doctor
from cosyd.cli.doctor.check import Setup
from cosyd.config.load import Loaded
from cosyd.config.schema import Config, FrontendConfig, GpuConfig
from cosyd.errors import GpuError
from cosyd.gpu import factory, kernels, opening, probe
from cosyd.gpu.factory import open_front_end
from cosyd.gpu.probe import Refusal, refusal
from cosyd.gpu.streams import RATES_HZ, FilterBank, row_bytes
from cosyd.models.store import ModelStore
from cosyd.types import Health


class Ear:
    def __init__(self) -> None:
        self.healths: list[Health] = []

    def health(self, health: Health) -> None:
        self.healths.append(health)

    def usage(self, usage: object) -> None:
        raise AssertionError("there is no GPU")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """A machine with a GPU and all that is needed; tests take things away."""
    has: dict[str, object] = {"devices": True, "count": 1, "packages": set(probe.PACKAGES), "arch": 90}
    monkeypatch.setattr(probe, "why_unusable", lambda: None if has["devices"] else "no NVIDIA GPU: none")
    monkeypatch.setattr(doctor, "why_unusable", probe.why_unusable)
    monkeypatch.setattr(probe, "installed", lambda name: name in has["packages"])  # type: ignore[operator]
    monkeypatch.setattr(probe, "architecture", lambda: has["arch"])
    monkeypatch.setattr(kernels, "origin", lambda arch, cache: has.get("code", "in the package"))
    yield has


def test_the_cpu_was_asked_for(machine: dict[str, object], tmp_path: Path) -> None:
    assert refusal(GpuConfig(backend="cpu"), tmp_path) == Refusal("gpu.backend is cpu")


def test_with_all_there_it_is_tried(machine: dict[str, object], tmp_path: Path) -> None:
    assert refusal(GpuConfig(), tmp_path) is None


def test_no_device_is_nothing_to_complain_of(machine: dict[str, object], tmp_path: Path) -> None:
    machine["devices"] = False
    assert refusal(GpuConfig(), tmp_path) == Refusal("no NVIDIA GPU: none")


def test_a_gpu_without_its_libraries_says_which(machine: dict[str, object], tmp_path: Path) -> None:
    machine["packages"] = {"pycuda"}
    found = refusal(GpuConfig(), tmp_path)
    assert found is not None and found.there
    assert "cuda.bindings is not installed: pip install" in found.reason


def test_a_gpu_without_machine_code_says_so(machine: dict[str, object], tmp_path: Path) -> None:
    machine["code"] = ""
    found = refusal(GpuConfig(), tmp_path)
    assert found is not None and found.there and "sm_90" in found.reason


def test_looking_imports_nothing_of_cuda() -> None:
    assert probe.installed("cosyd") and not probe.installed("no_such_parent.child")
    assert importlib.util.find_spec("pycuda") is None or "pycuda.driver" not in __import__("sys").modules


def test_what_the_documentation_calls_the_widest_hop_fits() -> None:
    """32 channels of 16 bit at 48 kHz; 8 of 32 bit at 96 kHz; not one more."""
    filters = FilterBank(RATES_HZ)
    room = row_bytes(filters, opening.CHANNELS * opening.SAMPLE_BYTES)
    assert room == 24_576
    assert filters.ratio(48_000).most_frames * 64 == filters.ratio(96_000).most_frames * 32 == room


# --- opening -------------------------------------------------------------------------------------------


def opened(gpu: GpuConfig, models_dir: Path, ear: Ear) -> str:
    config = FrontendConfig(max_streams=2)
    with open_front_end(config, gpu, ModelStore(models_dir), Path("unused"), ear) as front:
        assert {b.reason for b in front.backends.values()} == {front.backends["vad"].reason}
        return front.backends["vad"].reason


def no_gpu(monkeypatch: pytest.MonkeyPatch, why: Refusal) -> None:
    monkeypatch.setattr(factory, "refusal", lambda config, cache: why)


def test_auto_without_a_gpu_is_quiet_and_has_the_reason(
    models_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ear = Ear()
    no_gpu(monkeypatch, Refusal("no NVIDIA GPU: none"))
    assert opened(GpuConfig(), models_dir, ear) == "no NVIDIA GPU: none"
    assert ear.healths == []


@pytest.mark.parametrize(
    ("backend", "there", "severity"),
    [("auto", True, "warning"), ("cuda", False, "error"), ("cuda", True, "error")],
)
def test_a_gpu_that_was_expected_and_is_not_used_is_told(
    models_dir: Path, monkeypatch: pytest.MonkeyPatch, backend: str, there: bool, severity: str
) -> None:
    ear = Ear()
    no_gpu(monkeypatch, Refusal("pycuda is not installed", there))
    assert opened(GpuConfig(backend=backend), models_dir, ear) == "pycuda is not installed"  # type: ignore[arg-type]
    assert [(h.code, h.severity) for h in ear.healths] == [("gpu_unusable", severity)]
    assert ear.healths[0].message == "the front end runs on the CPU: pycuda is not installed"


def test_a_gpu_that_does_not_open_is_no_end_unless_it_is_required(
    models_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object) -> None:
        raise GpuError("no GPU: device 0 cannot be opened: out of memory")

    monkeypatch.setattr(factory, "refusal", lambda config, cache: None)
    monkeypatch.setattr(opening, "open_device", broken)
    ear = Ear()
    assert "out of memory" in opened(GpuConfig(), models_dir, ear)
    assert [h.severity for h in ear.healths] == ["warning"]
    with pytest.raises(GpuError, match=r"^gpu\.require_gpu: no GPU: device 0 cannot be opened"):
        opened(GpuConfig(require_gpu=True), models_dir, ear)


def test_a_required_gpu_that_is_not_there_ends_the_start_with_5(models_dir: Path) -> None:
    if probe.why_unusable() is None:
        pytest.skip("there is a GPU")
    with pytest.raises(GpuError, match=r"gpu\.require_gpu: no NVIDIA GPU|driver") as caught:
        opened(GpuConfig(require_gpu=True), models_dir, Ear())
    assert caught.value.exit_code == 5


# --- doctor --------------------------------------------------------------------------------------------


def checked(**sections: object) -> dict[str, tuple[str, str]]:
    setup = Setup(Loaded(Config.model_validate(sections)))
    return {check.name: (check.status, check.message) for check in doctor.examine(setup)}


def test_doctor_says_of_each_stage_what_it_runs_on_and_why(machine: dict[str, object]) -> None:
    found = checked()
    assert found["gpu.backend"] == ("ok", "the front end runs on the GPU")
    assert found["stage.vad"][1].startswith("GPU: ")
    assert found["gpu.kernels"] == ("ok", "sm_90: in the package")
    machine["packages"] = set()
    found = checked(frontend={"denoise": "off", "asr_input": "raw"})
    assert found["gpu.backend"][0] == "warn"
    assert found["stage.vad"][1].startswith("CPU: a GPU is there, but pycuda is not installed")
    assert found["stage.denoise"][1].startswith("none: ")
    assert found["gpu.pycuda"][0] == "warn"


def test_doctor_fails_for_a_gpu_that_was_asked_for(machine: dict[str, object]) -> None:
    machine["devices"] = False
    assert checked()["gpu.backend"][0] == "ok"
    for asked in ({"backend": "cuda"}, {"require_gpu": True}):
        status, message = checked(gpu=asked)["gpu.backend"]
        assert (status, "no NVIDIA GPU: none" in message) == ("fail", True)
    assert "gpu.kernels" not in checked()


def test_doctor_says_when_there_is_neither_code_nor_compiler(machine: dict[str, object]) -> None:
    machine["code"] = ""
    found = checked()
    assert found["gpu.kernels"][0] == found["gpu.backend"][0] == "warn"
