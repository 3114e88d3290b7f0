"""Measurements of the GPU front end, on this machine, now.

Every figure comes with what it was measured on. Times are wall-clock around ``launch`` … ``collect``
unless a name says otherwise: copies both ways, all kernels, and Python's part are in. Inputs are noise, never
zeros; 48 kHz S16 mono.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from contextlib import ExitStack, closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from cosyd.bench.gpu_blocks import blocks
from cosyd.bench.gpu_costs import COSTS
from cosyd.bench.gpu_memory import MemorySampler
from cosyd.bench.gpu_runner import SPEC, Runner, Values, percentiles, timed
from cosyd.bench.gpu_trace import DriverCalls, find_cupti
from cosyd.errors import GpuError
from cosyd.gpu.driver import Gpu
from cosyd.gpu.layout import CHUNK
from cosyd.gpu.load import GpuLoad
from cosyd.gpu.pipeline import Pipeline
from cosyd.gpu.settings import Mode, Settings
from cosyd.gpu.weights import DtlnWeights, VadWeights, read_dtln, read_vad
from cosyd.spec import FRAME

HOP_MS = float(FRAME.hop_ms)
COUNTS = (
    1,
    8,
    64,
    256,
    1024,
    4096,
    8192,
    16384,
    20480,
    32768,
    49152,
    65536,
    81920,
    98304,
    114688,
    122880,
    131072,
)
FEW_COUNTS = (1, 1024, 20480, 98304)
FLOP = sum(cost.flop for cost in COSTS)  # of one stream and hop


class GpuBench:
    """Owns the GPU and the weights. Use as a context manager."""

    def __init__(self, models: Path, cache: Path) -> None:
        self._models, self._cache = models, cache
        self._stack = ExitStack()

    def __enter__(self) -> GpuBench:
        self.gpu = self._stack.enter_context(Gpu(self._cache))
        dtln = self._models / "dtln"
        self.dtln: DtlnWeights = read_dtln(dtln / "model_1.onnx", dtln / "model_2.onnx")
        self.vad: VadWeights = read_vad(self._models / "silero-vad-6" / "silero_vad_16k_op15.onnx")
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def sampling(self, path: Path) -> MemorySampler:
        """Memory and load every 100 ms to this file."""
        load = self._stack.enter_context(closing(GpuLoad()))
        memory = self.gpu.memory

        def look() -> tuple[int, int, int, float | None]:
            return memory.used, *(load.memory() or (0, 0)), load.read()

        return MemorySampler(path, look)

    def open(self, slots: int, mode: Mode) -> Pipeline:
        settings = Settings(slots, mode=mode, channels=1, sample_bytes=2, rates_hz=(48_000,), blend=1.0)
        return Pipeline(self.gpu, settings, self.vad, self.dtln)

    def _runner(self, pipeline: Pipeline, count: int, aligned: bool = False) -> Runner:
        return self._stack.enter_context(closing(Runner(pipeline, count, aligned)))

    def latency(self, mode: Mode = "fp32", hops: int = 20_000) -> Values:
        """One stream: PCM in host memory -> denoised PCM and probability there, features on the device."""
        with self.open(1, mode) as pipeline:
            run = self._runner(pipeline, 1)
            run.steps(200)
            run.steps(hops)
            return {"hops": hops, "mode": mode, "us": percentiles(run.seconds)}

    def streams(self, count: int, mode: Mode, hops: int = 250, aligned: bool = False) -> Values:
        """Step time of ``count`` streams. ``aligned``: all VAD work in every fourth hop."""
        with self.open(count, mode) as pipeline:
            run = self._runner(pipeline, count, aligned)
            run.steps(20)
            run.steps(hops)
            step, host = run.seconds, run.host
            interval = run.sustained(hops)
            gib = self.gpu.memory.used / 2**30
        return {
            "streams": count,
            "mode": mode,
            "aligned": aligned,
            "hops": hops,
            "step_ms": percentiles(step, 1e3),
            "host_ms": percentiles(host, 1e3),
            "sustained_ms": percentiles(interval, 1e3),
            "tflops": round(count * FLOP / float(np.median(step)) / 1e12, 2),
            "device_gib": round(gib, 2),
        }

    def cpu(self, batch: int, blocks: int = 40) -> Values:
        """The CPU front end's DTLN and VAD stages on one thread: time of one hop of ``batch`` streams."""
        from cosyd.frontend.dtln import Dtln
        from cosyd.frontend.silero import SileroVad

        slots, rng = np.arange(batch), np.random.default_rng(0)
        folder = self._models / "dtln"
        dtln = Dtln(folder / "model_1.onnx", folder / "model_2.onnx", batch)
        vad = SileroVad(self._models / "silero-vad-6" / "silero_vad_16k_op15.onnx", batch)
        x = (rng.standard_normal((batch, FRAME.block)) * 0.1).astype(np.float32)

        def block() -> None:
            dtln.process(slots, x)
            vad.process(slots, x)

        seconds = timed(block, lambda: None, blocks) / FRAME.block_hops
        return {"batch": batch, "threads": 1, "hop_us": percentiles(seconds)}

    def driver_calls(self, count: int, hops: int = 1_000) -> Values:
        """Calls of the driver a hop, and bytes of memory taken meanwhile. ImportError without CUPTI."""
        cupti = find_cupti()
        if cupti is None:
            raise ImportError("CUPTI is not installed here")
        with self.open(count, "fp32") as pipeline:
            pipeline.warm_up()
            run = self._runner(pipeline, count)
            run.steps(10)
            before = self.gpu.memory.usage()
            with DriverCalls(cupti) as seen:
                run.steps(hops)
            taken = self.gpu.memory.usage().reserved - before.reserved
        return {"streams": count, "hops": hops, "calls": seen.per(hops), "memory_taken": taken}

    def kernels(self, count: int, mode: Mode) -> Values:
        """Time of each kernel in a step, by events, launched one by one."""
        with self.open(count, mode) as pipeline:
            run = self._runner(pipeline, count)
            run.steps(10)
            run.prepare()
            times = pipeline.kernel_times()
        rounded = {name: round(ms * 1e3, 2) for name, ms in times.items()}
        return {"streams": count, "mode": mode, "us": rounded, "sum_us": round(sum(times.values()) * 1e3, 1)}

    def torch(self, batch: int, repeats: int = 200) -> Values:
        """PyTorch eager, same networks, inputs on the device: one DTLN hop and a quarter of a VAD chunk."""
        from cosyd.bench.gpu_torch import TorchNetworks

        networks = TorchNetworks(self.dtln, self.vad, batch)
        torch = networks.torch
        frames, chunks = (
            torch.randn(batch, 512, device="cuda") * 0.1,
            torch.randn(batch, 576, device="cuda") * 0.1,
        )
        with torch.inference_mode():
            hop = timed(lambda: networks.denoise(frames), torch.cuda.synchronize, repeats)
            chunk = timed(lambda: networks.speech(chunks), torch.cuda.synchronize, repeats)
        per_hop = np.median(hop) + np.median(chunk) / 4
        return {
            "batch": batch,
            "torch": torch.__version__,
            "denoise_us": percentiles(hop),
            "vad_us": percentiles(chunk),
            "per_hop_us": round(float(per_hop) * 1e6, 1),
        }

    def ort(self, batch: int, repeats: int = 200) -> Values:
        """ONNX Runtime on CUDA: one DTLN hop and a quarter of a VAD chunk, everything bound on the device."""
        from cosyd.bench.gpu_ort import OrtNetworks

        networks = OrtNetworks(self._models, batch)
        hop, chunk = (timed(call, lambda: None, repeats) for call in (networks.denoise, networks.speech))
        per_hop = np.median(hop) + np.median(chunk) / 4
        return {
            "batch": batch,
            "onnxruntime": networks.version,
            "denoise_us": percentiles(hop),
            "vad_us": percentiles(chunk),
            "per_hop_us": round(float(per_hop) * 1e6, 1),
        }

    def ceilings(self) -> Values:
        """What this chip reaches: FP32 and FP16 products, copies on the device and to and from the host."""
        import importlib

        torch = importlib.import_module("torch")
        torch.backends.cuda.matmul.allow_tf32 = False
        result: Values = {}
        for name, dtype in (("fp32_tflops", torch.float32), ("fp16_tflops", torch.float16)):
            a, b = (torch.randn(8192, 8192, device="cuda", dtype=dtype) for _ in range(2))
            seconds = np.median(timed(lambda a=a, b=b: a @ b, torch.cuda.synchronize, 10))  # type: ignore[misc]
            result[name] = round(2 * 8192**3 / float(seconds) / 1e12, 1)
        big = torch.randn(2**29, device="cuda")
        seconds = np.median(timed(big.clone, torch.cuda.synchronize, 10))
        result["device_copy_tb_s"] = round(2 * big.nbytes / float(seconds) / 1e12, 2)
        host = torch.empty(2**26, dtype=torch.float32, pin_memory=True)
        part = big[: 2**26]
        up = np.median(timed(lambda: part.copy_(host, non_blocking=True), torch.cuda.synchronize, 10))
        down = np.median(timed(lambda: host.copy_(part, non_blocking=True), torch.cuda.synchronize, 10))
        result["host_to_device_gb_s"] = round(host.nbytes / float(up) / 1e9, 1)
        result["device_to_host_gb_s"] = round(host.nbytes / float(down) / 1e9, 1)
        return result

    def describe(self) -> Values:
        return {
            "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
            "gpu": self.gpu.name,
            "architecture": f"sm_{self.gpu.arch}",
            "cpu": platform.processor() or platform.machine(),
            "input": str(SPEC),
            "flop_per_stream_hop": round(FLOP),
        }


def measure(
    models: Path,
    cache: Path,
    quick: bool = False,
    say: Callable[[str], None] | None = None,
    memory_csv: Path | None = None,
) -> Values:
    """Everything; ``say`` is told each result as it comes. ``memory_csv``: memory over time goes there."""
    report: Values = {}

    def note(name: str, value: Any) -> None:
        report.setdefault(name, []).append(value)
        if say:
            say(f"{name}: {json.dumps(value)}")

    for streams in (1, 8):
        for lent in (False, True):
            note("blocks", blocks(models, cache, lent, 300 if quick else 3_000, streams))
    with GpuBench(models, cache) as bench, ExitStack() as stack:
        if memory_csv is not None:
            stack.enter_context(bench.sampling(memory_csv))
        note("machine", bench.describe())
        note("latency", bench.latency(hops=2_000 if quick else 20_000))
        modes: tuple[Mode, ...] = ("fp32", "fp16") if bench.gpu.arch < 80 else ("fp32", "fp16", "bf16")
        for mode in modes:
            _sweep(bench, mode, quick, note)
        for mode in modes:
            note("kernels", bench.kernels(CHUNK, mode))
        for batch in (1, 64):
            note("cpu", bench.cpu(batch))
        _compare(bench, note)
        _trace(bench, note)  # last: launches are slower once CUPTI has been loaded
    return report


def _sweep(bench: GpuBench, mode: Mode, quick: bool, note: Callable[[str, Any], None]) -> None:
    """More and more streams until a step takes longer than a hop."""
    for count in FEW_COUNTS if quick or mode == "bf16" else COUNTS:
        try:
            value = bench.streams(count, mode, 60 if quick else 250)
        except GpuError as error:
            note("stopped", {"streams": count, "mode": mode, "reason": str(error)})
            return
        note("streams", value)
        if value["step_ms"]["p99"] > 1.5 * HOP_MS:
            break
    note("streams", bench.streams(20_480, mode, 60 if quick else 250, aligned=True))


def _trace(bench: GpuBench, note: Callable[[str, Any], None]) -> None:
    try:
        for count in (1, 1024):
            note("driver_calls", bench.driver_calls(count))
    except ImportError as error:
        note("driver_calls", {"reason": str(error)})


def _compare(bench: GpuBench, note: Callable[[str, Any], None]) -> None:
    try:
        note("ceilings", bench.ceilings())
        for batch in (1, 1024):
            note("torch", bench.torch(batch))
    except ImportError:
        note("torch", {"reason": "PyTorch is not installed here"})
    try:
        for batch in (1, 1024):
            note("ort", bench.ort(batch))
    except ImportError as error:
        note("ort", {"reason": str(error)})
