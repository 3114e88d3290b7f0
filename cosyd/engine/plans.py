"""From a network to a TensorRT engine: the plan found or compiled, checked, and the precision that holds."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cosyd.config.schema import GpuConfig
from cosyd.engine.builder import Build, nobody_waits
from cosyd.engine.compile import BuildFailed, BuildRequest
from cosyd.engine.library import NAMES, Capability, Library
from cosyd.engine.memory import Memory
from cosyd.engine.network import Network
from cosyd.engine.plan import PlanKey, Precision
from cosyd.engine.store import PlanStore
from cosyd.engine.trt import TrtEngine
from cosyd.errors import ModelDamaged, ModelError

log = logging.getLogger(__name__)


class NotBuilt(ModelError):
    """There is no plan yet; ``key`` and ``request`` say what to build."""

    def __init__(self, key: PlanKey, request: BuildRequest) -> None:
        super().__init__(f"{key.network}: not compiled yet for {key.library}")
        self.key, self.request = key, request


@dataclass(frozen=True)
class Workshop:
    """Where engines are made: the library, the GPU, the cache, the configuration."""

    library: Library
    capability: Capability
    memory: Memory
    store: PlanStore
    gpu: GpuConfig
    stream: int = 0
    libraries: tuple[str, ...] = NAMES
    digests: dict[str, str] = field(default_factory=dict)  # of networks, by name: making one takes seconds

    def open(self, network: Network) -> TrtEngine:
        """The engine in the best precision that holds. Raises NotBuilt where a plan must be compiled first,
        BuildFailed, one line, where that failed or TensorRT is not for this network."""
        if network.refusal:
            raise BuildFailed(network.refusal)
        remarks: list[str] = []
        for precision in precisions(self.gpu.precision, network):
            key = self._key(network, precision)
            fault = self.store.failure(key) or self.store.note(key).refused
            if not fault:
                return self._load(network, key, remarks)
            remarks.append(f"{precision} is not used: {fault}")
        raise BuildFailed("; ".join(remarks))

    def build(self, wanted: NotBuilt, alive: Callable[[], None] = nobody_waits) -> str:
        """Compile, in a child, and wait; the reason when that failed, else "". Failures are remembered.
        ``alive`` is called meanwhile."""
        with Build(wanted.request, wanted.key, self.store.path(wanted.key)) as build:
            outcome = build.wait(alive)
        self.finished(wanted.key, outcome.fault, outcome.took_s)
        return outcome.fault

    def finished(self, key: PlanKey, fault: str, took_s: float) -> None:
        """After a build: remember how it went."""
        if fault:
            log.error("%s; ONNX Runtime serves, not tried again for a day", fault)
            self.store.note_failure(key, fault)
            return
        log.info("%s: compiled in %s by %s in %.1f s", key.network, key.precision, key.library, took_s)
        self.store.prune(key)

    # --- the steps -------------------------------------------------------------------------------------

    def _key(self, network: Network, precision: Precision) -> PlanKey:
        calibration = self.gpu.calibration if precision == "int8" else None
        if network.name not in self.digests:
            self.digests[network.name] = hashlib.sha256(network.onnx()).hexdigest()
        digest = self.digests[network.name]
        return PlanKey(
            network=network.name,
            onnx_sha256=f"{digest}+{_fingerprint(Path(calibration))}" if calibration else digest,
            library=self.library.title,
            capability=self.capability,
            precision=precision,
            profiles=network.profiles,
            sparse=self.gpu.sparse,
            workspace_mb=self.gpu.workspace_mb,
        )

    def _load(self, network: Network, key: PlanKey, remarks: list[str]) -> TrtEngine:
        """A plan that the library refuses is dropped and compiled again. Raises NotBuilt."""
        plan = self.store.load(key)
        unchecked = network.golden is not None and not self.store.note(key).checked
        if plan is not None and not unchecked:
            gpu = ".".join(map(str, self.capability))
            reason = "; ".join([f"{key.precision} on compute capability {gpu}", *remarks])
            try:
                return TrtEngine(
                    self.library,
                    plan,
                    self.memory,
                    name=network.name,
                    reason=reason,
                    stream=self.stream,
                    kernels=self.store.kernels(key),
                )
            except ModelDamaged as error:
                log.warning("%s; it is compiled again", error)
                self.store.drop(key)
        raise NotBuilt(key, self._request(network, key.precision))

    def _request(self, network: Network, precision: Precision) -> BuildRequest:
        return BuildRequest(
            name=network.name,
            onnx=network.onnx(),
            profiles=network.profiles,
            precision=precision,
            calibration=self.gpu.calibration,
            golden=network.golden,
            memory="cuda" if self.memory.device == "cuda" else "cpu",
            workspace_mb=self.gpu.workspace_mb,
            sparse=self.gpu.sparse,
            target=self.capability,
            libraries=self.libraries,
        )


def precisions(wanted: Precision, network: Network) -> Iterator[Precision]:
    """The wanted one, if it can be checked, then float32."""
    if wanted != "fp32" and network.golden is not None:
        yield wanted
    yield "fp32"


def _fingerprint(folder: Path) -> str:
    """Of the recordings' names and sizes: other recordings give other scales."""
    listed = sorted((str(path.relative_to(folder)), path.stat().st_size) for path in folder.rglob("*.wav"))
    return hashlib.sha256(repr(listed).encode()).hexdigest()
