"""Which engine runs a network, and why that one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cosyd.config.schema import GpuConfig
from cosyd.engine.builder import nobody_waits
from cosyd.engine.compile import BuildFailed
from cosyd.engine.library import NAMES, Capability, Library, TensorRtMissing, load_library
from cosyd.engine.managed import ManagedEngine
from cosyd.engine.memory import Memory
from cosyd.engine.network import Network
from cosyd.engine.ort import open_ort_cpu
from cosyd.engine.plans import NotBuilt, Workshop
from cosyd.engine.protocol import Engine
from cosyd.engine.store import PlanStore
from cosyd.engine.upgrade import open_waiting, upgradable, upgrading
from cosyd.errors import GpuError, InferenceError, ModelDamaged
from cosyd.types import Backend

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Machine:
    """What there is to run networks on. Each reason says why not; empty where it is there."""

    memory: Memory | None = None  # the GPU's
    capability: Capability = (0, 0)
    no_gpu: str = ""
    library: Library | None = None
    no_tensorrt: str = ""
    no_cuda_provider: str = ""
    libraries: tuple[str, ...] = NAMES


def look_around(index: int = 0) -> Machine:
    """Opens the GPU if there is one; what it has no use for without one is not loaded."""
    from cosyd.engine.cuda import CudaMemory
    from cosyd.engine.ort_cuda import missing_provider

    try:
        memory = CudaMemory(index)
    except GpuError as error:
        return Machine(no_gpu=str(error).split(";")[0])
    no_provider = missing_provider() or ""
    capability = memory.capability
    try:
        library = load_library()
    except TensorRtMissing as error:
        return Machine(memory, capability, no_tensorrt=str(error), no_cuda_provider=no_provider)
    refused = library.refuses(capability) or ""
    return Machine(memory, capability, "", None if refused else library, refused, no_provider)


def choose_engine(
    network: Network,
    gpu: GpuConfig,
    cache: Path,
    *,
    machine: Machine | None = None,
    wait: bool = False,
    alive: Callable[[], None] = nobody_waits,
) -> tuple[Engine, Backend]:
    """The best engine of this machine for the network, and why that one: TensorRT, ONNX Runtime on the GPU,
    ONNX Runtime on the processor.

    ``cache``: ``paths.cache``. ``wait``: compile first where there is no plan; otherwise that is done beside,
    and the engine changes over when it is ready. ``alive`` is called while it waits.

    Raises GpuError where a GPU is demanded and cannot be used, ModelMissing and ModelDamaged.
    """
    if gpu.backend == "cpu":
        if gpu.require_gpu:
            raise GpuError("gpu.require_gpu is set and gpu.backend is cpu; change one of them")
        return _with_reason(_on_cpu(network, "gpu.backend is cpu"))
    machine = machine or look_around()
    chooser = _Chooser(network, gpu, plans_of(cache), machine, alive)
    return _with_reason(chooser.choose(wait))


def plans_of(cache: Path) -> Path:
    """Where compiled networks lie."""
    return cache / "trt"


def _with_reason(engine: Engine) -> tuple[Engine, Backend]:
    log.info("%s runs on %s: %s", engine.name, engine.backend.name, engine.backend.reason)
    return engine, engine.backend


def _on_cpu(network: Network, reason: str) -> Engine:
    return open_ort_cpu(network.model, threads=network.threads, name=network.name, reason=reason)


def usual_sizes(network: Network) -> list[dict[str, int]]:
    """The least and the usual lengths of each profile: what to warm up with."""
    return [
        {axis: lengths[i] for axis, lengths in profile.axes} for profile in network.profiles for i in (0, 1)
    ]


class _Chooser:
    """Tries one engine after the other and keeps the reasons."""

    def __init__(
        self, network: Network, gpu: GpuConfig, folder: Path, machine: Machine, alive: Callable[[], None]
    ) -> None:
        self._network, self._gpu, self._machine, self._alive = network, gpu, machine, alive
        self._store = PlanStore(folder)
        self._reasons: list[str] = []

    def choose(self, wait: bool) -> Engine:
        if self._machine.memory is None:
            self._reasons.append(self._machine.no_gpu)
            return self._processor()
        nothing_meanwhile = self._gpu_demanded and bool(self._machine.no_cuda_provider)
        engine = self._on_gpu(wait or nothing_meanwhile)
        try:
            engine.warm_up(usual_sizes(self._network), self._network.fill)
        except InferenceError as error:
            log.warning("%s: warming up failed, the first steps will be slow: %s", self._network.name, error)
        return engine

    @property
    def _gpu_demanded(self) -> bool:
        return self._gpu.require_gpu or self._gpu.backend == "cuda"

    def _on_gpu(self, wait: bool) -> ManagedEngine:
        workshop = self._workshop()
        if workshop is not None:
            try:
                if wait:
                    engine = open_waiting(workshop, self._network, self._alive)
                else:
                    engine = workshop.open(self._network)
                return upgradable(engine, workshop, self._network, self._fallback, self._machine.memory)
            except NotBuilt as wanted:
                self._reasons.append("TensorRT is being compiled for")
                managed = upgradable(
                    self._interim(), workshop, self._network, self._fallback, self._machine.memory
                )
                return upgrading(managed, workshop, self._network, wanted)
            except (BuildFailed, ModelDamaged) as error:  # ONNX Runtime may take what TensorRT does not
                self._reasons.append(str(error))
        return ManagedEngine(self._interim(), self._interim, self._fallback, memory=self._machine.memory)

    def _fallback(self) -> Engine:
        return _on_cpu(self._network, "another engine failed")

    def _workshop(self) -> Workshop | None:
        if self._gpu.engine == "onnxruntime":
            self._reasons.append("gpu.engine is onnxruntime")
            return None
        machine = self._machine
        if machine.library is None or machine.memory is None:
            self._reasons.append(machine.no_tensorrt)
            return None
        stream = machine.memory.stream
        return Workshop(
            machine.library,
            machine.capability,
            machine.memory,
            self._store,
            self._gpu,
            stream,
            machine.libraries,
        )

    def _interim(self) -> Engine:
        """ONNX Runtime, on the GPU if it can."""
        from cosyd.engine.cuda import CudaMemory
        from cosyd.engine.ort_cuda import CudaProviderMissing, open_ort_cuda

        memory, missing = self._machine.memory, self._machine.no_cuda_provider
        if not missing and isinstance(memory, CudaMemory):
            reason = "; ".join(self._reasons)
            try:
                return open_ort_cuda(self._network.model, memory, name=self._network.name, reason=reason)
            except CudaProviderMissing as error:
                missing = str(error)
        self._reasons.append(missing)
        return self._processor()

    def _processor(self) -> Engine:
        reason = "; ".join(each for each in self._reasons if each)
        if self._gpu_demanded:
            key = "gpu.require_gpu" if self._gpu.require_gpu else "gpu.backend: cuda"
            raise GpuError(f"{key}: {self._network.name} cannot run on a GPU: {reason}; see cosyd doctor")
        return _on_cpu(self._network, reason)
