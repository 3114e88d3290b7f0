"""Run pytest with the given arguments; close with one line: how many passed, failed, were skipped.

Several tests run at a time, in processes of their own: a third of them wait for real time to pass.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

MOST_WORKERS = 8  # each may load every model: 1 GB
# One a core, and one more for those that wait; with more than that, tests in real time come too late.
WORKERS = min(MOST_WORKERS, len(os.sched_getaffinity(0)) + 1)
NO_TESTS = 5  # pytest's exit code when it collected nothing


def summary(report: Path) -> str:
    """The counts of a JUnit report."""
    suite = ElementTree.parse(report).getroot()[0]
    total, failures, errors, skipped = (
        int(suite.get(key, "0")) for key in ("tests", "failures", "errors", "skipped")
    )
    return (
        f"tests: {total - failures - errors - skipped} passed, {failures + errors} failed, {skipped} skipped"
    )


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        pytest = [sys.executable, "-m", "pytest", "-q", "-n", str(WORKERS), "--dist", "worksteal"]
        command = [*pytest, f"--junitxml={report}", *arguments]
        code = subprocess.run(command, check=False).returncode
        if report.exists():
            print(summary(report))  # noqa: T201
    if code == NO_TESTS:
        print("tests: nothing was collected", file=sys.stderr)  # noqa: T201
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
