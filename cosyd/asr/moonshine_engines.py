"""Where Moonshine's networks run: on a GPU that can, else on the processor; and what happens when one fails.

On a GPU they are three networks in standard ONNX (``cosyd.engine.moonshine``), opened through
``choose_engine``: TensorRT, or ONNX Runtime's CUDA provider. On the processor the published 8-bit files are
faster, so no network of a GPU is ever run there for longer than the request during which it failed.
"""

from __future__ import annotations

import ctypes
import importlib.util
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from cosyd.asr.moonshine_networks import HostNetworks, Networks, Result, open_on_processor
from cosyd.asr.recognizer import Audio
from cosyd.config.schema import GpuConfig
from cosyd.errors import CosydError, GpuError, InferenceError, ModelError
from cosyd.types import Backend

if TYPE_CHECKING:
    from cosyd.asr.moonshine_device import DeviceNetworks

log = logging.getLogger(__name__)

Renew = Callable[[str], None]
SPEECH = ("demo-speech", "beckett.wav")  # beside the model, where it was pulled: checks other precisions
SPEECH_S = 9


class NotOnGpu(ModelError):
    """Why these networks do not run on a GPU here."""


class Reviving(Protocol):
    """``cosyd.engine.trial.Revival``."""

    def failed(self) -> None: ...

    def poll(self) -> bool: ...

    def close(self) -> None: ...


def open_networks(
    folder: Path,
    name: str,
    gpu: GpuConfig,
    cache: Path,
    *,
    threads: int = 1,
    renew: Renew | None = None,
    alive: Callable[[], None] | None = None,
) -> Networks:
    """From a folder with the published files. ``cache``: ``paths.cache``. ``renew``: asks for a new process,
    when only that can use the GPU again. ``alive`` is called now and then: the first time takes long.

    Raises ModelMissing or ModelDamaged; GpuError where a GPU is required and cannot be used.
    """
    why = why_on_processor(gpu)
    if not why:
        try:
            device = open_on_gpu(folder, gpu, cache, alive)
        except (CosydError, OSError) as error:
            why = str(error)
        else:
            return _healing(folder, name, gpu, cache, threads, renew, device)
    if gpu.require_gpu:
        raise GpuError(f"gpu.require_gpu: {name} cannot run on a GPU: {why}; see cosyd doctor")
    return open_on_processor(folder, name, threads=threads, reason=why)


def why_on_processor(gpu: GpuConfig) -> str:
    """Why not on a GPU, as far as can be seen without opening it; empty: try it."""
    from cosyd.engine.cuda import DRIVER

    if gpu.backend == "cpu":
        return "gpu.backend is cpu"
    try:
        ctypes.CDLL(DRIVER)
    except OSError:
        return f"no GPU: NVIDIA's driver is not installed ({DRIVER})"
    if importlib.util.find_spec("onnx") is None:
        from cosyd.engine.network import NO_ONNX

        return NO_ONNX
    return _no_engine(gpu)


def _no_engine(gpu: GpuConfig) -> str:
    """What is missing of that which runs networks on a GPU; empty where there is something."""
    from cosyd.engine.library import TensorRtMissing, load_library
    from cosyd.engine.ort_cuda import missing_provider

    provider = missing_provider()
    if provider is None:
        return ""
    if gpu.engine == "onnxruntime":
        return provider
    try:
        load_library()
    except TensorRtMissing as error:
        return f"{error}; {provider}"
    return ""


def open_on_gpu(
    folder: Path, gpu: GpuConfig, cache: Path, alive: Callable[[], None] | None = None
) -> DeviceNetworks:
    """Raises NotOnGpu, GpuError, ModelMissing, ModelDamaged; OSError where the cache cannot be written."""
    from cosyd.asr.moonshine_device import DeviceNetworks
    from cosyd.engine.choose import choose_engine, look_around
    from cosyd.engine.moonshine import moonshine
    from cosyd.engine.prepared import onnx_folder

    machine = look_around()
    if machine.memory is None:
        raise NotOnGpu(machine.no_gpu)
    if machine.no_cuda_provider and (machine.library is None or gpu.engine == "onnxruntime"):
        raise NotOnGpu("; ".join(filter(None, (machine.no_tensorrt, machine.no_cuda_provider))))
    alive = alive or _nothing
    parts = moonshine(folder, onnx_folder(cache), _speech(folder), alive)
    engines: list[Any] = []
    try:
        for network in (parts.encoder, parts.first, parts.following):
            engines.append(choose_engine(network, gpu, cache, machine=machine)[0])
            alive()
    except CosydError:
        for engine in engines:
            engine.close()
        raise
    return DeviceNetworks(*engines)


def _speech(folder: Path) -> Audio | None:
    """Some seconds to check other precisions with, where the store has them."""
    from cosyd.engine.recipe import read_wav

    path = folder.parent.joinpath(*SPEECH)
    return read_wav(path)[: SPEECH_S * 16_000] if path.is_file() else None


def _healing(
    folder: Path,
    name: str,
    gpu: GpuConfig,
    cache: Path,
    threads: int,
    renew: Renew | None,
    device: DeviceNetworks,
) -> HealingNetworks:
    from cosyd.engine.trial import Revival

    return HealingNetworks(
        device,
        lambda: open_on_gpu(folder, gpu, cache),
        lambda: open_on_processor(folder, name, threads=threads),
        Revival() if renew else None,
        renew,
    )


class HealingNetworks:
    """Networks on a GPU with the processor's behind them. An utterance is never lost: its request is done
    again, on networks opened anew, or on the processor.

    The GPU is tried again after 1, 2, 4, 8, 8 … s. Where its context is gone, a child asks whether it answers
    there; if so, ``renew`` is told, once, that a new process would have it again.
    """

    attention = True

    def __init__(
        self,
        device: DeviceNetworks,
        reopen: Callable[[], DeviceNetworks],
        host: Callable[[], HostNetworks],
        revival: Reviving | None = None,
        renew: Renew | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        from cosyd.engine.faults import Faults

        self._device: DeviceNetworks | None = device
        self._reopen, self._open_host = reopen, host
        self._host: HostNetworks | None = None
        self._revival, self._renew = revival, renew
        self._faults = Faults(clock)
        self._current: Networks = device if _ready(device) else self._processor()

    @property
    def backend(self) -> Backend:
        if self._current is not self._host:
            return self._current.backend
        on_host, device = self._current.backend, self._device
        why = device.backend.reason if device is not None else f"the GPU failed: {self._faults.last}"
        return Backend(on_host.name, f"{on_host.reason}; {why}")

    @property
    def faults(self) -> int:
        """How many there were since the start."""
        return self._faults.count

    def listen(self, audio: Audio, context: tuple[int, ...] = ()) -> Any:
        return self._current.listen(audio, context)

    def guarded(self, action: Callable[[], Result]) -> Result:
        self._look()
        if self._current is self._host:
            return action()
        try:
            result = action()
        except (InferenceError, GpuError) as error:
            return self._again(action, error)
        self._faults.went_well()
        return result

    def close(self) -> None:
        for networks in (self._device, self._host, self._revival):
            if networks is not None:
                networks.close()
        self._device = None

    # --- faults ----------------------------------------------------------------------------------------

    def _again(self, action: Callable[[], Result], error: CosydError) -> Result:
        from cosyd.engine.tensors import Misuse

        if isinstance(error, Misuse):  # no fault of the GPU: audio or text longer than it was compiled for
            self._current = self._processor()
            return action()
        self._note(error)
        if self._faults.may_retry and self._load():
            try:
                return action()
            except (InferenceError, GpuError) as once_more:
                self._note(once_more)
        self._leave()
        return action()

    def _note(self, error: CosydError) -> None:
        self._faults.note(error)
        log.warning("%s; fault %d, the request is done again", error, self._faults.count)

    def _load(self) -> bool:
        """The networks on the GPU anew; False where that fails or they are not there yet."""
        if self._device is not None:
            self._device.close()
            self._device = None
        try:
            self._device = self._reopen()
        except (CosydError, OSError) as error:
            log.warning("opening the networks on the GPU again failed: %s", error)
            return False
        if _ready(self._device):
            self._current = self._device
            return True
        return False

    def _leave(self) -> None:
        """The processor's from now on."""
        if self._device is not None:
            self._device.close()
            self._device = None
        self._faults.postpone()
        self._current = self._processor()
        if self._revival is not None:
            self._revival.failed()
        log.warning("the recogniser goes on on the processor for now: %s", self._faults.last)

    def _look(self) -> None:
        """Between two requests: back to the GPU, if it is time."""
        if self._device is not None:
            for engine in self._device.engines:
                getattr(engine, "look", _nothing)()
            self._current = self._device if _ready(self._device) else self._processor()
        elif self._faults.may_retry:
            if self._load():
                log.info("the recogniser is back on %s", self._current.backend.name)
            elif self._device is None:
                self._faults.postpone(failed_again=True)
                self._ask_for_a_process()

    def _ask_for_a_process(self) -> None:
        if self._revival is not None and self._renew is not None and self._revival.poll():
            self._renew(f"the GPU answers again after: {self._faults.last}")

    def _processor(self) -> HostNetworks:
        if self._host is None:
            self._host = self._open_host()
        return self._host


def _ready(device: DeviceNetworks) -> bool:
    """All three run on the GPU, not on the processor while TensorRT compiles them or after a fault."""
    return all(
        getattr(engine, "current", engine).memory.device == engine.memory.device for engine in device.engines
    )


def _nothing() -> None:
    pass
