"""What one step of the pipeline reads and writes, on the host and on the device."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.gpu.device_array import DeviceArray
from cosyd.gpu.graph import Graph
from cosyd.gpu.layout import Layout

Array = NDArray[Any]


@dataclass(frozen=True)
class HopResult:
    """Host views of one step, valid until the step after the next begins."""

    asr: Array  # float32 [n, hop]: what the recogniser hears
    vad_rows: Array  # rows whose chunk ended with this hop
    vad_prob: Array  # float32 [len(vad_rows)]
    statistics: Array  # float32 [n, channels, 4]; see kernels/stats.cu


@dataclass
class StepBuffer:
    """Page-locked memory of one step and its twin on the device."""

    host_in: Array
    host_out: Array
    device_in: DeviceArray
    device_out: DeviceArray
    features: DeviceArray
    done: Any
    graphs: dict[tuple[int, bool], Graph] = field(default_factory=dict)  # by capacity, whether all is lent
    rows: Array = field(default_factory=lambda: np.zeros(0, np.intp))
    vad_rows: Array = field(default_factory=lambda: np.zeros(0, np.intp))
    layout: Layout = field(default_factory=lambda: Layout(1, 0, 1))
    lent: bool = False
