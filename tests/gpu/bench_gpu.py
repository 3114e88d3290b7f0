"""Runs cosyd.bench.gpu and writes gpu.json; called by run.sh.   bench_gpu.py MODELS CACHE OUTPUT [--quick]"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from cosyd.bench.gpu import measure


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    models, cache, output = (Path(argument) for argument in sys.argv[1:4])
    report = measure(models, cache, "--quick" in sys.argv, say)
    output.write_text(json.dumps(report, indent=1) + "\n")
