"""``cosyd bench``: measure, and keep the report of a full run with the sources."""

from __future__ import annotations

import importlib
from argparse import Namespace
from typing import Any

from cosyd.bench import report
from cosyd.cli.common import note, print_json
from cosyd.errors import GpuError
from cosyd.gpu.probe import why_unusable


def run(args: Namespace) -> int:
    if args.what == "gpu" and (reason := why_unusable()) is not None:
        raise GpuError(f"nothing to measure on a GPU: {reason}")
    result: dict[str, Any] = importlib.import_module(f"cosyd.bench.{args.what}").run(args.quick)
    if args.json:
        print_json(result)
    else:
        print(report.markdown(result), end="")
    if not args.quick and report.FOLDER.is_dir():  # in a checkout, not in an installation
        note(f"written to {', '.join(map(str, report.save(result, report.FOLDER)))}")
    return 0
