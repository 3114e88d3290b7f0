"""What can run networks here, what TensorRT has compiled, and what it was refused for."""

from __future__ import annotations

from collections.abc import Iterator

from cosyd.cli.doctor.check import Check, Setup, ok, warn
from cosyd.engine.choose import Machine, look_around, plans_of
from cosyd.engine.store import PlanStore

REMEDIES = {
    "tensorrt": "install TensorRT 10.3 or later; on a Jetson it is part of JetPack",
    "onnxruntime": "pip install onnxruntime-gpu (x86-64), or NVIDIA's wheel on a Jetson",
}


def examine(setup: Setup) -> Iterator[Check]:
    if setup.config.gpu.backend == "cpu":
        yield ok("engine.choice", "networks run in ONNX Runtime on the CPU: gpu.backend is cpu")
        return
    there = look_around()
    yield choice(there, setup.config.gpu.engine)
    if there.memory is not None:
        yield library("tensorrt", there.no_tensorrt, _title(there))
        yield library("onnxruntime", there.no_cuda_provider, "has the CUDA provider")
    yield from plans(PlanStore(plans_of(setup.paths.cache)))


def choice(there: Machine, asked: str) -> Check:
    """What networks with an engine run on, before anything that concerns one network alone."""
    if there.memory is None:
        return ok("engine.choice", f"networks run in ONNX Runtime on the CPU: {there.no_gpu}")
    if there.library is not None and asked != "onnxruntime":
        return ok("engine.choice", f"networks run in {there.library.title}, compiled when first used")
    why = "gpu.engine is onnxruntime" if asked == "onnxruntime" else there.no_tensorrt
    if not there.no_cuda_provider:
        return ok("engine.choice", f"networks run in ONNX Runtime on the GPU: {why}")
    message = (
        f"networks run in ONNX Runtime on the CPU although there is a GPU: {why}; {there.no_cuda_provider}"
    )
    return warn("engine.choice", message, REMEDIES["onnxruntime"])


def library(name: str, missing: str, message: str) -> Check:
    if missing:
        return warn(f"engine.{name}", missing, REMEDIES[name])
    return ok(f"engine.{name}", message)


def plans(store: PlanStore) -> Iterator[Check]:
    """How many there are, and each precision or build that was refused, with its reason."""
    count = len(list(store.folder.glob("*.plan")))
    yield ok("engine.plans", f"{count} compiled, in {store.folder}" if count else "none compiled")
    for name, note in store.notes():
        if note.failed:
            remedy = f"mend that, then remove {store.folder / name}.note, or wait a day"
            yield warn(f"engine.plan.{name}", note.failed, remedy)
        elif note.refused:
            yield ok(f"engine.plan.{name}", f"not used, fp32 is: {note.refused}")


def _title(there: Machine) -> str:
    return there.library.title if there.library is not None else ""
