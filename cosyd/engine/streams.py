"""Engines for networks that take many streams, such as those of a streaming recogniser."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path

from cosyd.config.schema import GpuConfig
from cosyd.engine.choose import Machine, choose_engine, look_around
from cosyd.engine.network import for_streams
from cosyd.engine.ort import open_streams_cpu
from cosyd.engine.protocol import Engine


class StreamEngines:
    """Opens one network after the other on the best engine of this machine, which it looks at once.

    ``cache``: ``paths.cache``; ``most``: streams at a time; ``threads``: of ONNX Runtime on the processor.
    """

    def __init__(self, gpu: GpuConfig, cache: Path, most: int, threads: int) -> None:
        self._gpu, self._cache, self._most, self._threads = gpu, cache, most, threads

    @cached_property
    def _machine(self) -> Machine:
        return Machine(no_gpu="gpu.backend is cpu") if self._gpu.backend == "cpu" else look_around()

    def __call__(self, file: Path) -> Engine:
        """Raises ModelMissing, ModelDamaged, or GpuError where a GPU is demanded and cannot be used."""
        machine = self._machine
        if machine.memory is None and not self._gpu.require_gpu:  # no need to take the network apart
            return open_streams_cpu(file, threads=self._threads, reason=machine.no_gpu)
        network = replace(for_streams(file, self._most, name=str(file)), threads=self._threads)
        engine, _ = choose_engine(network, self._gpu, self._cache, machine=machine)
        return engine
