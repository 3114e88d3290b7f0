"""States of streams in a GPU's memory: what streams say, how long a step takes.

    PYTHONPATH=. python3 tests/gpu/stream_states_gpu.py [MODEL ...]

MODEL: folders of streaming models; without one a zipformer2 of usual size with random weights is made. Needs
a GPU, cuda-bindings and onnxruntime-gpu. Prints a line for each check and a table of times; the exit status
is 0 when all checks pass, 1 when one fails, 2 without what is needed. Outputs of a network that makes much
of the last bit, as random weights do, are not judged. Field case 21: memory stays flat.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cosyd.asr.streaming.batch import zero_feeds
from cosyd.asr.streaming.families import describe
from cosyd.asr.streaming.folder import open_folder
from cosyd.asr.streaming.metadata import Metadata
from cosyd.asr.streaming.ports import Ports
from cosyd.asr.streaming.recognizer import CachedStateRecognizer
from cosyd.asr.streaming.slots import SlotStates
from cosyd.asr.streaming.spec import EncoderSpec
from cosyd.config.schema import GpuConfig
from cosyd.engine.cuda import CudaMemory
from cosyd.engine.ort import open_ort_cpu
from cosyd.engine.ort_cuda import CudaProviderMissing, open_ort_cuda
from cosyd.engine.protocol import Engine
from cosyd.engine.streams import StreamEngines
from cosyd.errors import GpuError

CAPACITY = 64
LARGEST_DIFFERENCE = 1e-3  # of the outputs, float32, no TF32
LEAK_MIB = 16
LAST_BIT = 1 + 1e-6
failures: list[str] = []


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def check(name: str, passed: bool, found: str = "") -> None:
    say(f"{'ok  ' if passed else 'FAIL'} {name} {found}")
    if not passed:
        failures.append(name)


# --- streams ----------------------------------------------------------------------------------------------


def described(engine: Engine, folder: Path) -> EncoderSpec:
    ports = Ports(engine.name, engine.inputs, engine.outputs)
    return describe(Metadata(engine.name, engine.metadata), ports, open_folder(folder).filters)


def check_streams(memory: CudaMemory, folder: Path) -> bool:
    """Changing batches, joining and leaving, beside the same on the processor; whether it could be judged."""
    file = open_folder(folder, ("fp32",)).encoder
    with open_ort_cuda(file, memory, name=str(file)) as cuda, open_ort_cpu(file, threads=8) as cpu:
        spec, rng = described(cpu, folder), np.random.default_rng(0)
        ours, theirs = SlotStates(cuda, spec, CAPACITY), SlotStates(cpu, spec, CAPACITY)
        ours.warm_up()
        steps, used, off, agreed, frames = np.zeros(CAPACITY, np.int64), 0, 0.0, 0, 0
        for turn in range(40):
            if turn == 20:
                used = memory.used()[0]
            slots = rng.permutation(CAPACITY)[: rng.integers(1, 17)].tolist()
            x = _features(rng, spec, len(slots))
            got, expected = (each.step(slots, x, steps[slots]) for each in (ours, theirs))
            off = max(off, float(np.abs(got - expected).max()))
            agreed += int((got.argmax(-1) == expected.argmax(-1)).sum())
            frames += got.shape[0] * got.shape[1]
            steps[slots] += 1
            if turn % 5 == 4:
                for each in (ours, theirs):
                    each.reset(slots[0])
                steps[slots[0]] = 0
        grown = (memory.used()[0] - used) / (1 << 20)
        steady = is_steady(cpu, spec)
        if steady:
            check(
                f"{folder.name}: outputs are the processor's", off < LARGEST_DIFFERENCE, f"off by {off:.1e}"
            )
            check(f"{folder.name}: the best of each frame is, too", agreed == frames, f"{agreed} of {frames}")
        else:
            say(f"     {folder.name}: outputs not judged, they hang on the last bit; off by {off:.1e}")
        check(f"{folder.name}: memory is flat", grown < LEAK_MIB, f"{grown:.1f} MiB more after 20 steps")
        measure(memory, cuda, spec, ours)
        ours.close()
        theirs.close()
        return steady


def is_steady(cpu: Engine, spec: EncoderSpec) -> bool:
    """Whether inputs that differ in the last bit give nearly the same outputs, on the processor alone."""
    x = _features(np.random.default_rng(5), spec, 4)
    plain, other = (SlotStates(cpu, spec, 4) for _ in range(2))
    slots, off = list(range(4)), 0.0
    for turn in range(10):
        steps = np.full(4, turn)
        pair = plain.step(slots, x, steps), other.step(slots, x * np.float32(LAST_BIT), steps)
        off = max(off, float(np.abs(pair[0] - pair[1]).max()))
    return off < LARGEST_DIFFERENCE


def _features(rng: np.random.Generator, spec: EncoderSpec, n: int) -> np.ndarray:
    shape = (
        (n, spec.feature.bins, spec.window) if spec.channels_first else (n, spec.window, spec.feature.bins)
    )
    level, spread = (0.0, 0.5) if spec.feature.kind == "log_mel" else (-6.0, 3.0)
    return rng.normal(level, spread, shape).astype(np.float32)


def measure(memory: CudaMemory, engine: Engine, spec: EncoderSpec, slots: SlotStates) -> None:
    rng = np.random.default_rng(1)
    state_kib = sum(int(np.prod(s.shape)) * s.dtype.itemsize for s in spec.states) / 1_024
    say(f"     {memory.name}; states of a stream: {state_kib:,.0f} KiB in {len(spec.states)} tensors")
    say("     streams   same batch   others each step   states over the host")
    for n in (1, 8, 32, CAPACITY):
        x, feeds = _features(rng, spec, n), zero_feeds(spec, engine, n)
        same = list(range(n))
        times = [
            _median(lambda: slots.step(same, x, np.ones(n, int))),  # noqa: B023
            _median(lambda: slots.step(rng.permutation(CAPACITY)[:n].tolist(), x, np.ones(n, int))),  # noqa: B023
            _median(lambda: engine.run(feeds)),  # noqa: B023
        ]
        say(f"     {n:7d}" + "".join(f"{1e3 * each:15.2f} ms" for each in times))
        if n == CAPACITY:
            check("on the device a step of many is quicker", times[1] < times[2])


def _median(step: Callable[[], Any], repeats: int = 30) -> float:
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        step()
        times.append(time.perf_counter() - begun)
    return float(np.median(times[3:]))


# --- the whole --------------------------------------------------------------------------------------------


def check_text(folder: Path, cache: Path) -> None:
    """What the daemon opens, on the best engine of this machine, beside the processor."""
    rng = np.random.default_rng(3)
    clips = [
        rng.normal(0, 0.05, 3 * 16_000).astype(np.float32) * np.sin(np.arange(48_000) / 900) for _ in range(5)
    ]
    clips = [clip.astype(np.float32) for clip in clips]
    found = []
    for opener in (None, StreamEngines(GpuConfig(), cache, 8, 1)):
        recognizer = CachedStateRecognizer.load(folder, name="test", open_engine=opener, capacity=8)
        recognizer.warm_up()
        slots = [recognizer.open() for _ in clips]
        for start in range(0, 48_000, 4_000):
            recognizer.accept(slots, [clip[start : start + 4_000] for clip in clips])
        found.append([recognizer.finish(slot).tokens for slot in slots])
        say(f"     {recognizer.backend.name}: {recognizer.backend.reason}")
        recognizer.close()
    check(f"{folder.name}: same tokens through the daemon's engines", found[0] == found[1])


def main() -> int:
    try:
        memory = CudaMemory()
        say(f"{memory.name}, compute capability {memory.capability}")
        with tempfile.TemporaryDirectory() as scratch:
            folders = [Path(each) for each in sys.argv[1:]]
            if not folders:
                from cosyd.bench.streaming_model import save_ctc

                folders = [save_ctc(Path(scratch, "zipformer2"))]
            for folder in folders:
                if check_streams(memory, folder):
                    check_text(folder, Path(scratch, "cache"))
    except (GpuError, CudaProviderMissing) as error:
        say(f"NOT RUN: {error}")
        return 2
    say(f"{len(failures)} failed" if failures else "all passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
