"""A hop is one graph launch, and nothing allocates, copies beside it or waits otherwise: by CUPTI's account.

trace_gpu.py MODELS CACHE
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from cosyd.bench.gpu_measure import GpuBench
from cosyd.bench.gpu_trace import EXPECTED, find_cupti

STREAMS = (1, 8, 1024)


def main() -> None:
    models, cache = map(Path, sys.argv[1:3])
    if find_cupti() is None:
        sys.stdout.write("no CUPTI on this machine: NOT TRACED\n")
        return
    with GpuBench(models, cache) as bench:
        for count in STREAMS:
            found = bench.driver_calls(count)
            sys.stdout.write(json.dumps(found) + "\n")
            assert set(found["calls"]) <= EXPECTED, found
            assert found["calls"]["cuGraphLaunch"] == found["calls"]["cuEventRecord"] == 1
            assert found["memory_taken"] == 0


if __name__ == "__main__":
    main()
