"""What a step asks of the driver, by CUPTI: every driver call between the first and the last of some hops.

CUPTI reports each call of the driver's interface by name, from any library of the process. The report is
the number of calls a hop; the test is that nothing allocates, copies outside of the graph or synchronises.

trace_gpu.py MODELS CACHE [OUTPUT.json]
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from cosyd.gpu.driver import Gpu
from cosyd.gpu.pipeline import Pipeline
from cosyd.gpu.settings import Settings
from cosyd.gpu.weights import read_dtln, read_vad

HOPS = 1000
ENTER, DRIVER_DOMAIN = 0, 1  # CUPTI_API_ENTER, CUPTI_CB_DOMAIN_DRIVER_API
ALLOWED = {"cuGraphLaunch", "cuEventRecord", "cuEventQuery"}


class CallbackData(ctypes.Structure):
    """The beginning of CUpti_CallbackData."""

    _fields_ = (("site", ctypes.c_int), ("name", ctypes.c_char_p))


CALLBACK = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(CallbackData)
)


def find_cupti() -> ctypes.CDLL | None:
    """From the packages that PyTorch brings, or from the toolkit."""
    places = [Path(p) / "nvidia" for p in sys.path if p] + [Path("/usr/local/cuda")]
    for place in places:
        for path in sorted(place.glob("**/libcupti.so*")) if place.is_dir() else ():
            try:
                return ctypes.CDLL(str(path))
            except OSError:
                continue
    return None


class DriverCalls:
    """Counts the driver calls of a with block by name."""

    def __init__(self, cupti: ctypes.CDLL) -> None:
        self.calls: Counter[str] = Counter()
        self._cupti = cupti
        self._subscriber = ctypes.c_void_p()
        self._callback = CALLBACK(self._called)

    def _called(self, user: int, domain: int, cbid: int, data: ctypes._Pointer[CallbackData]) -> None:
        if data.contents.site == ENTER:
            self.calls[data.contents.name.decode()] += 1

    def __enter__(self) -> DriverCalls:
        self._check(self._cupti.cuptiSubscribe(ctypes.byref(self._subscriber), self._callback, None))
        self._check(self._cupti.cuptiEnableDomain(1, self._subscriber, DRIVER_DOMAIN))
        return self

    def __exit__(self, *_: object) -> None:
        self._check(self._cupti.cuptiUnsubscribe(self._subscriber))

    def _check(self, status: int) -> None:
        if status:
            raise RuntimeError(f"CUPTI error {status}")


def trace(gpu: Gpu, cupti: ctypes.CDLL, models: Path, count: int) -> dict[str, float]:
    """Driver calls a hop of ``count`` streams."""
    from cosyd.bench.gpu_runner import Runner

    dtln = read_dtln(models / "dtln" / "model_1.onnx", models / "dtln" / "model_2.onnx")
    vad = read_vad(models / "silero-vad-6" / "silero_vad_16k_op15.onnx")
    with Pipeline(
        gpu, Settings(count, channels=1, sample_bytes=2, rates_hz=(48_000,)), vad, dtln
    ) as pipeline:
        pipeline.warm_up()
        run = Runner(pipeline, count)
        run.steps(10)
        with DriverCalls(cupti) as seen:
            run.steps(HOPS)
        run.close()
    assert np.isfinite(run.seconds).all()
    return {name.split("_v")[0].split("_ptsz")[0]: number / HOPS for name, number in seen.calls.items()}


def main() -> None:
    models, cache = map(Path, sys.argv[1:3])
    cupti = find_cupti()
    if cupti is None:
        sys.stdout.write("no CUPTI on this machine: NOT TRACED\n")
        return
    with Gpu(cache) as gpu:
        found = {count: trace(gpu, cupti, models, count) for count in (1, 8, 1024)}
    result = {"hops": HOPS, "driver_calls_a_hop": found}
    sys.stdout.write(json.dumps(result, indent=1) + "\n")
    if len(sys.argv) > 3:
        Path(sys.argv[3]).write_text(json.dumps(result, indent=1) + "\n")
    for calls in found.values():
        assert set(calls) <= ALLOWED, calls
        assert calls["cuGraphLaunch"] == 1


if __name__ == "__main__":
    main()
