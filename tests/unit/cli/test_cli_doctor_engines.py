"""cosyd doctor about engines."""

from __future__ import annotations

from pathlib import Path

from cosyd.cli.doctor import engines
from cosyd.engine.choose import Machine
from cosyd.engine.library import Library
from cosyd.engine.memory import HostMemory
from cosyd.engine.plan import PlanKey
from cosyd.engine.store import PlanStore

KEY = PlanKey("encoder", "0" * 64, "TensorRT 10.5", (8, 6), "fp16", ())
LIBRARY = Library(None, rtx=False, version="10.5")


def test_without_a_gpu_the_processor_is_all_right() -> None:
    check = engines.choice(Machine(no_gpu="no GPU: none"), "auto")
    assert (check.status, check.message) == ("ok", "networks run in ONNX Runtime on the CPU: no GPU: none")


def test_a_gpu_that_nothing_can_use_is_a_warning() -> None:
    there = Machine(HostMemory(), (8, 6), no_tensorrt="too old", no_cuda_provider="no provider")
    check = engines.choice(there, "auto")
    assert check.status == "warn"
    assert check.message.endswith("although there is a GPU: too old; no provider")
    assert check.remedy


def test_tensorrt_comes_first_unless_it_is_not_wanted() -> None:
    there = Machine(HostMemory(), (8, 6), library=LIBRARY)
    assert "TensorRT 10.5" in engines.choice(there, "auto").message
    assert engines.choice(there, "onnxruntime").message.endswith("on the GPU: gpu.engine is onnxruntime")


def test_what_was_refused_is_told_with_its_reason(tmp_path: Path) -> None:
    store = PlanStore(tmp_path)
    assert [check.message for check in engines.plans(store)] == ["none compiled"]
    store.note_check(KEY, "tokens differ")
    (told,) = list(engines.plans(store))[1:]
    assert (told.status, told.message) == ("ok", "not used, fp32 is: tokens differ")
    store.note_failure(KEY, "killed")
    (told,) = list(engines.plans(store))[1:]
    assert (told.status, told.message) == ("warn", "killed")
    assert ".note" in told.remedy
