"""``cosyd bench``: measure, and keep the report of a full run with the sources."""

from __future__ import annotations

import importlib
import importlib.util
from argparse import Namespace
from typing import Any

from cosyd.cli.common import note, print_json
from cosyd.errors import GpuError


def run(args: Namespace) -> int:
    if importlib.util.find_spec(f"cosyd.bench.{args.what}") is None:
        raise GpuError(_why_no_gpu())
    result: dict[str, Any] = importlib.import_module(f"cosyd.bench.{args.what}").run(args.quick)
    from cosyd.bench.report import FOLDER, markdown, save

    if args.json:
        print_json(result)
    else:
        print(markdown(result), end="")
    if not args.quick and FOLDER.is_dir():  # in a checkout, not in an installation
        note(f"written to {', '.join(map(str, save(result)))}")
    return 0


def _why_no_gpu() -> str:
    from cosyd.cli.doctor.gpu import why_unusable

    return f"nothing to measure on a GPU: {why_unusable()}"
