"""Plans on disk, and their builds in a child: with the fake library, in real processes.

Field case 26: a plan that is damaged, or another version's, is never opened.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import engine_networks as networks
import numpy as np
import pytest
from fake_engine import LIBRARIES, PROFILES

from cosyd.engine.builder import Build
from cosyd.engine.compile import BuildRequest, compile_plan
from cosyd.engine.library import TensorRtMissing, load_library
from cosyd.engine.memory import HostMemory
from cosyd.engine.plan import PlanKey, read_plan, write_plan
from cosyd.engine.profiles import Profile
from cosyd.engine.store import RETRY_S, PlanStore
from cosyd.engine.trt import TrtEngine
from cosyd.errors import ModelDamaged, ModelError

NETWORK = networks.Recurrent()
KEY = PlanKey("test", "0" * 64, "TensorRT 10.5.0.18", (8, 6), "fp32", PROFILES)


@pytest.fixture(scope="module")
def plan() -> Any:
    return compile_plan(BuildRequest("test", NETWORK.build(kind="x"), PROFILES, libraries=LIBRARIES))


@pytest.fixture(autouse=True)
def no_process_is_left() -> Any:
    yield
    assert multiprocessing.active_children() == []


# --- plans on disk -----------------------------------------------------------------------------------------


def test_a_plan_comes_back_whole(tmp_path: Path, plan: Any) -> None:
    path = tmp_path / "deep" / KEY.filename
    write_plan(path, KEY, plan)
    assert read_plan(path, KEY) == plan
    assert plan.metadata == {"kind": "x"}
    assert [each.name for each in path.parent.iterdir()] == [KEY.filename]  # no temporary file


def test_everything_that_a_plan_depends_on_changes_its_name() -> None:
    others = [
        replace(KEY, onnx_sha256="1" * 64),
        replace(KEY, library="TensorRT 10.6"),
        replace(KEY, capability=(8, 7)),
        replace(KEY, precision="fp16"),
        replace(KEY, profiles=PROFILES[:1]),
        replace(KEY, sparse=True),
        replace(KEY, workspace_mb=512),
    ]
    assert len({key.filename for key in (KEY, *others)}) == 8


@pytest.mark.parametrize("where", [slice(0, 64), slice(200, 210), slice(-64, None), slice(20, None)])
def test_a_damaged_plan_is_compiled_again_with_one_line(
    tmp_path: Path, plan: Any, where: slice, caplog: pytest.LogCaptureFixture
) -> None:
    store = PlanStore(tmp_path)
    write_plan(store.path(KEY), KEY, plan)
    data = bytearray(store.path(KEY).read_bytes())
    data[where] = b"" if where == slice(20, None) else bytes(255 - byte for byte in data[where])
    store.path(KEY).write_bytes(data)
    with caplog.at_level(logging.INFO):
        assert store.load(KEY) is None
    assert len(caplog.records) == 1
    assert "it is compiled again" in caplog.text
    assert not store.path(KEY).exists()


def test_a_plan_of_another_version_is_explained_and_pruned(
    tmp_path: Path, plan: Any, caplog: pytest.LogCaptureFixture
) -> None:
    store, old = PlanStore(tmp_path), replace(KEY, library="TensorRT 10.3.0")
    write_plan(store.path(old), old, plan)
    with caplog.at_level(logging.INFO):
        assert store.load(KEY) is None
    assert "library TensorRT 10.3.0 is now TensorRT 10.5.0.18" in caplog.text
    store.prune(KEY)
    assert list(tmp_path.iterdir()) == []


def test_a_renamed_plan_is_still_foreign(tmp_path: Path, plan: Any) -> None:
    old = replace(KEY, capability=(7, 5))
    write_plan(tmp_path / KEY.filename, old, plan)
    with pytest.raises(ModelDamaged, match=r"capability 7\.5 is now 8\.6"):
        read_plan(tmp_path / KEY.filename, KEY)


def test_a_failed_build_is_remembered_for_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = PlanStore(tmp_path)
    assert store.failure(KEY) is None
    store.note_failure(KEY, "too little memory")
    assert PlanStore(tmp_path).failure(KEY) == "too little memory"
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + RETRY_S + 1)
    assert store.failure(KEY) is None


# --- building ----------------------------------------------------------------------------------------------


def request(**changes: Any) -> BuildRequest:
    made = BuildRequest("test", NETWORK.build(), PROFILES, libraries=LIBRARIES, memory="cpu")
    return replace(made, **changes)


def test_a_child_builds_and_writes(tmp_path: Path, plan: Any) -> None:
    path = tmp_path / KEY.filename
    with Build(request(), KEY, path) as build:
        assert build.pid != os.getpid()
        assert build.wait().fault == ""
    assert read_plan(path, KEY).profiles == plan.profiles
    assert PlanStore(tmp_path).note(KEY).checked


@pytest.mark.parametrize(
    ("name", "said"),
    [("SIGKILL", "was ended by SIGKILL; most likely there was too little memory"), ("SIGSEGV", "by SIGSEGV")],
)
def test_a_killed_build_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    monkeypatch.setenv("FAKE_TENSORRT_KILL", name)
    with Build(request(), KEY, tmp_path / KEY.filename) as build:
        fault = build.wait().fault
    assert said in fault
    assert fault.startswith("test: the TensorRT build ")
    assert "\n" not in fault
    assert list(tmp_path.iterdir()) == []


def test_a_build_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_TENSORRT_KILL", "SIGSTOP")
    with Build(request(), KEY, tmp_path / KEY.filename, limit_s=3) as build:
        assert build.wait().fault == "test: the TensorRT build took longer than 3 s and was ended"


def test_closing_ends_a_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_TENSORRT_KILL", "SIGSTOP")
    build = Build(request(), KEY, tmp_path / KEY.filename).start()
    assert build.poll() is None
    build.close()
    build.close()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"workspace_mb": 0}, "cannot compile it: no tactic fits the workspace"),
        ({"profiles": ()}, "has free axes and no profile is given"),
        ({"profiles": (Profile.of({"M": (1, 1, 1)}),)}, "the profile gives no range for N"),
        ({"libraries": ("no_such_library",)}, "neither tensorrt nor tensorrt_rtx is installed"),
        ({"onnx": b"nonsense"}, "not an ONNX file"),
    ],
)
def test_what_cannot_be_built_says_why(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        compile_plan(request(**changes))


# --- TensorRT-RTX ------------------------------------------------------------------------------------------


def test_rtx_compiles_for_a_target_and_keeps_its_kernels(tmp_path: Path) -> None:
    library, path = load_library(("fake_rtx",)), tmp_path / "test.kernels"
    assert library.title == "TensorRT-RTX 10.5.0.18"
    plan = compile_plan(request(libraries=("fake_rtx",), target=(8, 9)))
    feeds = {"x": np.ones((1, networks.FEATURES), np.float32), **NETWORK.zeros(1)}
    for loaded in ([], [b"kernels"]):
        with TrtEngine(library, plan, HostMemory(), name="test", reason="", kernels=path) as engine:
            assert loaded == library.module.LOADED
            np.testing.assert_allclose(engine.run(feeds)["y"], NETWORK.step(feeds)["y"], atol=1e-5)
            engine.keep_kernels()
    with pytest.raises(ModelError, match=r"does not compile for compute capability 9\.0"):
        compile_plan(request(libraries=("fake_rtx",), target=(9, 0)))
    assert "does not run on compute capability 9.0" in str(library.refuses((9, 0)))


def test_a_library_that_is_too_old_or_empty_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for version, said in (("8.6.1", "tensorrt 8.6.1 is too old"), ("", "tensorrt is an empty package")):
        stub = ModuleType("tensorrt")
        stub.__dict__.update(__version__=version, Builder=object)
        monkeypatch.setitem(sys.modules, "tensorrt", stub)
        with pytest.raises(TensorRtMissing, match=said):
            load_library(("tensorrt",))
