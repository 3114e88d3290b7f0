"""``cosyd bench``: measure, and keep the report of a full run with the sources."""

from __future__ import annotations

import importlib
from argparse import Namespace
from typing import Any

from cosyd.bench import report
from cosyd.cli.common import note, print_json
from cosyd.errors import GpuError, UsageError
from cosyd.gpu.probe import why_unusable

IN_PARTS = ("array", "echo", "streaming")  # benchmarks of which parts can be measured alone


def run(args: Namespace) -> int:
    if args.what == "gpu" and (reason := why_unusable()) is not None:
        raise GpuError(f"nothing to measure on a GPU: {reason}")
    if args.memory_csv and args.what != "gpu":
        raise UsageError("--memory-csv belongs to bench gpu")
    options: dict[str, Any] = {"memory_csv": args.memory_csv} if args.memory_csv else {}
    if args.only:
        if args.what not in IN_PARTS:
            raise UsageError(f"--only belongs to bench {', '.join(IN_PARTS)}")
        options["only"] = args.only
    if args.hours:
        if args.what != "streaming":
            raise UsageError("--hours belongs to bench streaming")
        options["hours"] = args.hours
    bench = importlib.import_module(f"cosyd.bench.{args.what}")
    result: dict[str, Any] = bench.run(args.quick, **options)
    if args.json:
        print_json(result)
    else:
        print(report.markdown(result), end="")
    if not args.quick and report.FOLDER.is_dir():  # in a checkout, not in an installation
        note(f"written to {', '.join(map(str, report.save(result, report.FOLDER)))}")
    return 0
