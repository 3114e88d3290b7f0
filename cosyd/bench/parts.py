"""A long benchmark in parts, which can be measured one at a time.

Those that measure time want a machine that does nothing else; those that measure errors take long and do not
care. Each part's results say when they were measured.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cosyd.bench.report import FOLDER, Figure, Report, Table, cpu_name
from cosyd.errors import UsageError

Parts = Mapping[str, Callable[[Report], None]]


def measure(report: Report, parts: Parts, only: Sequence[str] = (), folder: Path = FOLDER) -> dict[str, Any]:
    """The report with ``only`` these parts measured anew (none named: all), the others as they are kept.

    Raises UsageError for a part that there is not.
    """
    unknown = [name for name in only if name not in parts]
    if unknown:
        raise UsageError(f"bench {report.name} has no part {unknown[0]!r}; it has {', '.join(parts)}")
    kept = _kept(report.name, folder) if only else {}
    found: dict[str, Any] = {}
    for name, part in parts.items():
        if only and name not in only:
            if name in kept:
                found[name] = _restore(report, kept[name])
            continue
        begun = {
            "begun": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "load": _load(),
            "machine": f"{cpu_name()}, {os.cpu_count()} cores",
        }
        figures, tables = len(report.figures), len(report.tables)
        part(report)
        found[name] = begun | _results(report, figures, tables)
    report.method = f"{report.method}\n\n{_when(report.name, found)}"
    return report.as_dict() | {"parts": found}


def _load() -> float:
    return round(os.getloadavg()[0], 2)


def _kept(name: str, folder: Path) -> dict[str, Any]:
    path = folder / f"{name}.json"
    parts: dict[str, Any] = json.loads(path.read_text()).get("parts", {}) if path.is_file() else {}
    return parts


def _results(report: Report, figures: int, tables: int) -> dict[str, Any]:
    """What was added since there were so many."""
    return {
        "figures": [vars(figure) for figure in report.figures[figures:]],
        "tables": [vars(table) for table in report.tables[tables:]],
    }


def _restore(report: Report, kept: dict[str, Any]) -> dict[str, Any]:
    report.figures += [Figure(**figure) for figure in kept["figures"]]
    for table in kept["tables"]:
        rows = tuple(tuple(row) for row in table["rows"])
        report.tables.append(Table(table["title"], tuple(table["head"]), rows))
    return kept


def _when(name: str, found: Mapping[str, Any]) -> str:
    begun = "; ".join(
        f"{part} {about['begun']} (load {about['load']}; {about['machine']})" for part, about in found.items()
    )
    return f"Parts, which `cosyd bench {name} --only PART` measures alone, were begun: {begun}."
