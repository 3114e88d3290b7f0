"""The whole daemon with its front end on the GPU: what it hears, beside the same daemon on the CPU.

    python tests/gpu/daemon_gpu.py RECORDING…

Needs the models (COSYD_MODELS_DIR) of front end and recogniser. Prints, for each recording, both texts and
how many words differ; then what `status` says of the stages. Ends with 1 if the front end is not on the GPU,
or the recogniser although ONNX Runtime could, or more than one word in fifty differs (sums are in another
order than the CPU's, and Moonshine's activations are not rounded to 8 bits).
"""

from __future__ import annotations

import difflib
import os
import sys
import time
from pathlib import Path

from cosyd.bench.daemon import Daemon
from cosyd.client import AsrFinal, Client, ControlClient, State
from cosyd.engine.ort_cuda import missing_provider

MOST_DIFFERENT = 0.02
PATIENCE_S = 120.0


def hear(recording: Path, backend: str) -> tuple[list[str], dict[str, object], float]:
    """Words of the finals, the source's state as ``status`` gives it, and seconds from READY to the end."""
    settings = {
        "sources": [{"name": "talk", "type": "file", "path": str(recording), "realtime": False}],
        "gpu": {"backend": backend},
        "paths": {"models": os.environ["COSYD_MODELS_DIR"]},
    }
    words: list[str] = []
    status: dict[str, object] = {}
    with (
        Daemon(settings) as daemon,
        Client(daemon.events, daemon.control, ("asr.final.", "state.")) as client,
    ):
        deadline, begin = time.monotonic() + PATIENCE_S, 0.0
        while time.monotonic() < deadline:
            message = client.receive(0.5)
            if message is None:
                daemon.check()
            elif isinstance(message, AsrFinal):
                words += message.text.lower().split()
            elif isinstance(message, State) and message.status == "listening" and not status:
                begin = time.monotonic()
                with ControlClient(daemon.control) as control:
                    status = control.request("status")
            elif isinstance(message, State) and message.status == "ended":
                return words, status, time.monotonic() - begin
        raise SystemExit(f"no end of {recording} after {PATIENCE_S:.0f} s:\n{daemon.log.read_text()}")


def different(a: list[str], b: list[str]) -> int:
    """Words that are not the same."""
    same = sum(
        block.size for block in difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    )
    return max(len(a), len(b)) - same


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def compare(recording: Path) -> bool:
    """Whether the two say the same, and the GPU was used."""
    on_gpu, status, gpu_s = hear(recording, "cuda")
    on_cpu, _, cpu_s = hear(recording, "cpu")
    changed = different(on_gpu, on_cpu)
    say(f"{recording.name}: {len(on_cpu)} words, {changed} differ; GPU {gpu_s:.2f} s, CPU {cpu_s:.2f} s")
    say(f"  GPU: {' '.join(on_gpu)}")
    say(f"  CPU: {' '.join(on_cpu)}")
    backends = str(status.get("backends"))
    say(f"  status: {backends}")
    say(f"  sources: {status.get('sources')}")
    used = dict(status["backends"])  # type: ignore[call-overload]
    expected = ["vad"] + ["asr"] * (missing_provider() is None)
    elsewhere = [stage for stage in expected if "cuda" not in used[stage]["name"].lower()]
    say(f"  not on the GPU: {', '.join(elsewhere) or 'none of ' + ', '.join(expected)}")
    return bool(on_cpu) and changed <= MOST_DIFFERENT * len(on_cpu) and not elsewhere


def main() -> int:
    compared = [compare(Path(name)) for name in sys.argv[1:]]  # all of them, whatever one says
    return int(not all(compared))


if __name__ == "__main__":
    sys.exit(main())
