"""CUDA graphs, over cuda.bindings, which the Gpu hands in: PyCUDA has no wrappers for them."""

from __future__ import annotations

import logging
from typing import Any

from cosyd.errors import GpuError

log = logging.getLogger("cosyd.gpu")


def checked(result: tuple[Any, ...], device: str, what: str) -> Any:
    """The value of a driver call, a status first; GpuError says what failed on which device."""
    status, *values = result
    if int(status):
        raise GpuError(f"{device}: {what} failed: {status}")
    return values[0] if values else None


class Graph:
    """A captured sequence of copies and kernels; one launch runs all of it."""

    def __init__(self, driver: Any, device: str) -> None:
        self._driver = driver
        self._device = device
        self._exec: Any = None

    def instantiate(self, graph: Any) -> None:
        made = self._driver.cuGraphInstantiate(graph, 0)
        self._exec = checked(made, self._device, "instantiating a graph")
        checked(self._driver.cuGraphDestroy(graph), self._device, "destroying a graph")

    def launch(self, stream: Any) -> None:
        (status,) = self._driver.cuGraphLaunch(self._exec, stream.handle)
        if int(status):
            raise GpuError(f"{self._device}: launching a step failed: {status}")

    def close(self) -> None:
        """Idempotent, and never fails: a dead device has no graphs."""
        if self._exec is not None:
            (status,) = self._driver.cuGraphExecDestroy(self._exec)
            if int(status):
                log.debug("%s: destroying a graph failed: %s", self._device, status)
            self._exec = None
