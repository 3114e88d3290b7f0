"""``cosyd bench gpu``: the GPU front end's figures beside their targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cosyd.bench.gpu_blocks import METHOD as BLOCKS
from cosyd.bench.gpu_costs import shares
from cosyd.bench.gpu_measure import HOP_MS, measure
from cosyd.bench.report import Report, number

P50_US, P99_US = 120.0, 250.0  # targets of one stream on a large GPU
STREAMS = 20_000
TORCH = {1: 10.0, 1024: 2.0}  # at least this many times as fast

METHOD = (
    "Times are wall-clock on the host from the launch of a step's graph until its results are in host "
    "memory: copies both ways, all kernels, the waiting thread's wake-up. A step is one 8 ms hop of 48 "
    "kHz S16 mono noise: resampling, DC removal, statistics, DTLN, VAD (a quarter of the streams each "
    "hop), Kaldi log-mel. 'Host' is what filling the page-locked buffer takes (eight threads from 2,048 "
    "streams on), 'sustained' the interval between hops when the host fills one while the device works "
    "on the other. PyTorch runs the same networks eagerly in FP32 (TF32 off) with inputs on the device, "
    "without copies, resampling, statistics and features: the comparison favours it. " + BLOCKS
)

KERNELS = (
    " (by events; statistics and VAD run beside the others; arithmetic and bytes as the headers count them, "
    "beside a large product and a copy on the device, measured below)"
)


def run(quick: bool, memory_csv: Path | None = None) -> dict[str, Any]:
    """Measure with the models and the cache of the default configuration.

    ``memory_csv``: GPU memory and load every 100 ms, with a chart beside it.
    """
    from cosyd.config.load import load

    paths = load().paths
    return run_with(paths.models, paths.cache / "kernels", quick, memory_csv=memory_csv)


def run_with(
    models: Path,
    cache: Path,
    quick: bool = False,
    say: Callable[[str], None] | None = None,
    memory_csv: Path | None = None,
) -> dict[str, Any]:
    """Measure with these models and this kernel cache; ``say`` is told each result as it comes."""
    found = measure(models, cache, quick, say, memory_csv)
    machine = found["machine"][0]
    report = Report("gpu", f"GPU front end on {machine['gpu']} ({machine['architecture']})", METHOD, quick)
    _figures(report, found)
    _tables(report, found)
    return report.as_dict() | {"measured": found}


def _figures(report: Report, found: dict[str, Any]) -> None:
    one = found["latency"][0]
    note = f"FP32, {one['hops']:,} hops"
    report.add("one stream, one hop, P50", one["us"]["p50"], "µs", target=P50_US, note=note)
    report.add("one stream, one hop, P99", one["us"]["p99"], "µs", target=P99_US, note=note)
    for mode in dict.fromkeys(row["mode"] for row in found["streams"]):
        rows = [row for row in found["streams"] if row["mode"] == mode and not row["aligned"]]
        for key, name in (("step_ms", "step"), ("sustained_ms", "sustained")):
            live = [row["streams"] for row in rows if row[key]["p99"] < HOP_MS]
            title = f"most streams tried with P99 {name} < {HOP_MS:g} ms, {mode}"
            report.add(title, max(live, default=0), "", target=STREAMS, at_least=True)
    for row in found.get("torch", []):
        if "batch" in row and (own := _step_of(found, row["batch"])):
            ratio = row["per_hop_us"] / own
            title = f"times as fast as PyTorch, batch {row['batch']}, FP32"
            report.add(title, ratio, "×", target=TORCH[row["batch"]], at_least=True)
    for row in found.get("ort", []):
        if "batch" in row and (own := _step_of(found, row["batch"])):
            title = f"times as fast as ONNX Runtime's networks on CUDA, batch {row['batch']}, FP32"
            report.add(title, row["per_hop_us"] / own, "×", note="without resampling, features, copies")


def _step_of(found: dict[str, Any], count: int) -> float | None:
    """Median step of so many streams in FP32, µs; of one stream over the most hops."""
    if count == 1:
        return float(found["latency"][0]["us"]["p50"])
    steps = [r["step_ms"]["p50"] for r in found["streams"] if r["streams"] == count and r["mode"] == "fp32"]
    return 1e3 * float(steps[0]) if steps else None


def _tables(report: Report, found: dict[str, Any]) -> None:
    head = ("streams", "mode", "step P50", "P99", "max", "host P50", "sustained P50", "P99", "TFLOP/s", "GiB")
    rows = [
        (
            f"{r['streams']:,}{' aligned' if r['aligned'] else ''}",
            r["mode"],
            *(number(r["step_ms"][p]) for p in ("p50", "p99", "max")),
            number(r["host_ms"]["p50"]),
            *(number(r["sustained_ms"][p]) for p in ("p50", "p99")),
            number(r["tflops"]),
            number(r["device_gib"]),
        )
        for r in found["streams"]
    ]
    report.table("Step time against streams (ms; 'aligned': all VAD work in the same hop)", head, rows)
    for entry in found["kernels"]:
        title = f"Kernels of a step, {entry['streams']:,} streams, {entry['mode']}"
        report.table(title + KERNELS, *_kernels(entry, found.get("ceilings")))
    blocks = ("streams", "frames", "opened in, s", "push", "first", "P50", "P99", "max")
    rows = [
        (
            str(r["streams"]),
            r["frames"],
            number(r["opening_s"]),
            number(r["push_us"]),
            number(r["first_us"]),
            *(number(r["us"][p]) for p in ("p50", "p99", "max")),
        )
        for r in found.get("blocks", [])
    ]
    report.table("A block of 32 ms from a ring, as the daemon runs it (µs)", blocks, rows)
    calls = [
        (f"{r['streams']:,}", f"{r['hops']:,}", ", ".join(f"{k} {number(v)}" for k, v in r["calls"].items()))
        for r in found.get("driver_calls", [])
        if "calls" in r
    ]
    report.table("All calls of the driver, a hop, by CUPTI", ("streams", "hops", "calls"), calls)
    report.table("Other implementations", ("what", "batch", "per hop, µs"), _others(found))
    if ceilings := found.get("ceilings"):
        report.table("What the chip reaches", ("what", ""), [(k, number(v)) for k, v in ceilings[0].items()])


def _kernels(
    entry: dict[str, Any], ceilings: list[dict[str, float]] | None
) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Head and rows: each kernel's time, and where the chip's peaks are known, its share of them."""
    if not ceilings:
        return ("kernel", "µs"), [(name, number(us)) for name, us in entry["us"].items()]
    head = ("kernel", "µs", "TFLOP/s", "share of peak, %", "TB/s", "share of copy, %")
    rows = shares(entry["us"], entry["streams"], ceilings[0])
    return head, [(name, *map(number, values)) for name, *values in rows]


def _others(found: dict[str, Any]) -> Sequence[Sequence[str]]:
    rows = [
        (f"PyTorch {r['torch']}, eager, FP32", str(r["batch"]), number(r["per_hop_us"]))
        for r in found.get("torch", [])
        if "batch" in r
    ]
    for r in found.get("ort", []):
        if "batch" in r:
            what = f"ONNX Runtime {r['onnxruntime']} on CUDA, FP32, networks alone"
            rows.append((what, str(r["batch"]), number(r["per_hop_us"])))
        else:
            rows.append((f"ONNX Runtime on CUDA: not measured, {r['reason']}", "", ""))
    for r in found.get("cpu", []):
        rows.append(("CPU front end's DTLN and VAD, one thread", str(r["batch"]), number(r["hop_us"]["p50"])))
    return rows
