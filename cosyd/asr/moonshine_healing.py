"""Moonshine's networks on a GPU, with the processor's behind them: no utterance is lost when a GPU fails."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cosyd.asr.moonshine_networks import HostNetworks, Networks, Result
from cosyd.asr.recognizer import Audio
from cosyd.asr.tokenizer import BOS
from cosyd.errors import CosydError, GpuError, InferenceError
from cosyd.spec import FRAME
from cosyd.types import Backend

if TYPE_CHECKING:
    from cosyd.asr.moonshine_device import DeviceNetworks

log = logging.getLogger(__name__)

Renew = Callable[[str], None]
PROBE_S, PROBE_STEPS, PROBE_ROWS = 3, 8, 4  # what is timed: a short utterance, some steps of a beam
PROBE_TIMES = 2  # after a first one; the best counts


class Reviving(Protocol):
    """``cosyd.engine.trial.Revival``."""

    def failed(self) -> None: ...

    def poll(self) -> bool: ...

    def close(self) -> None: ...


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
        measure: Callable[[Networks], float] | None = None,
    ) -> None:
        """``measure``: seconds that networks take; where given, the GPU is used only if it is faster."""
        from cosyd.engine.faults import Faults

        self._device: DeviceNetworks | None = device
        self._reopen, self._open_host = reopen, host
        self._host: HostNetworks | None = None
        self._revival, self._renew = revival, renew
        self._faults = Faults(clock)
        self._measure = measure
        self._slower = ""
        self._current: Networks = self._processor()
        self._settle(device)

    @property
    def backend(self) -> Backend:
        if self._current is not self._host:
            return self._current.backend
        on_host, device = self._current.backend, self._device
        why = device.backend.reason if device is not None else f"the GPU failed: {self._faults.last}"
        why = self._slower or why
        return Backend(on_host.name, f"{on_host.reason}; {why}")

    @property
    def faults(self) -> int:
        """How many there were since the start."""
        return self._faults.count

    def listen(self, audio: Audio) -> Any:
        return self._current.listen(audio)

    def follow(self, audio: Audio, source: str) -> Any:
        return self._current.follow(audio, source)

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
        return self._settle(self._device)

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
            self._settle(self._device)
        elif self._faults.may_retry and not self._slower:
            if self._load():
                log.info("the recogniser is back on %s", self._current.backend.name)
            elif self._device is None:
                self._faults.postpone(failed_again=True)
                self._ask_for_a_process()

    def _ask_for_a_process(self) -> None:
        if self._revival is not None and self._renew is not None and self._revival.poll():
            self._renew(f"the GPU answers again after: {self._faults.last}")

    def _settle(self, device: DeviceNetworks) -> bool:
        """Use the GPU's networks if they are there and faster; whether they are used."""
        there = _ready(device)
        if there and self._measure is not None and not _better_comes(device):
            there = self._is_faster(device, self._measure)
            self._measure = None
        self._current = device if there else self._processor()
        return there

    def _is_faster(self, device: DeviceNetworks, measure: Callable[[Networks], float]) -> bool:
        """Than the processor; otherwise it is let go of, with the reason. So it is when timing it fails."""
        try:
            gpu, cpu = measure(device), measure(self._processor())
        except (InferenceError, GpuError) as error:
            self._note(error)
            self._leave()
            return False
        if gpu <= cpu:
            return True
        took = f"{gpu * 1e3:.0f} ms where the CPU takes {cpu * 1e3:.0f}"
        self._slower = f"the GPU is slower here: {took}"
        log.info("%s", self._slower)
        device.close()
        self._device = None
        return False

    def _processor(self) -> HostNetworks:
        if self._host is None:
            self._host = self._open_host()
        return self._host


def time_of(networks: Networks) -> float:
    """Seconds for a short utterance and some steps of a beam. Raises InferenceError, GpuError."""
    noise = np.random.default_rng(0).standard_normal(PROBE_S * FRAME.rate_hz).astype(np.float32) * 0.05
    best = float("inf")
    for turn in range(PROBE_TIMES + 1):
        began = time.perf_counter()
        decoder = networks.listen(noise)
        _, cache = decoder.begin(())
        decoder.pick(cache, [0] * PROBE_ROWS)
        for _ in range(PROBE_STEPS):
            decoder.step([BOS] * PROBE_ROWS, cache)
        took = time.perf_counter() - began
        best = min(best, took) if turn else best
    return best


def _ready(device: DeviceNetworks) -> bool:
    """All three run on the GPU, not on the processor while TensorRT compiles them or after a fault."""
    return all(
        getattr(engine, "current", engine).memory.device == engine.memory.device for engine in device.engines
    )


def _better_comes(device: DeviceNetworks) -> bool:
    """TensorRT is still compiling one of them."""
    return any(getattr(engine, "attended", False) for engine in device.engines)


def _nothing() -> None:
    pass
