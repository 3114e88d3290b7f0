"""Parts of a benchmark: measured alone, the others kept; wrong names are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosyd.bench.parts import Parts, measure
from cosyd.bench.report import Report, markdown, save
from cosyd.errors import UsageError


def parts(value: float) -> Parts:
    def exact(report: Report) -> None:
        report.add("errors", value, "%", target=5)
        report.table("Errors", ("a",), [(f"{value}",)])

    def fast(report: Report) -> None:
        report.add("speed", 10 * value, "times", at_least=True, target=10)

    return {"exact": exact, "fast": fast}


def run(value: float, folder: Path, *only: str) -> dict[str, float]:
    result = measure(Report("x", "Title", "Method."), parts(value), only, folder)
    save(result, folder)
    assert "fast" in markdown(result)
    return {figure["name"]: figure["value"] for figure in result["figures"]}


def test_what_is_not_measured_stays_as_it_was(tmp_path: Path) -> None:
    assert run(1.0, tmp_path) == {"errors": 1.0, "speed": 10.0}
    assert run(2.0, tmp_path, "fast") == {"errors": 1.0, "speed": 20.0}
    assert run(3.0, tmp_path, "exact") == {"errors": 3.0, "speed": 20.0}
    page = (tmp_path / "x.md").read_text()
    assert page.count("| 3.0 |") == 1
    assert "`cosyd bench x --only PART`" in page


def test_a_part_that_was_never_measured_is_left_out(tmp_path: Path) -> None:
    assert run(1.0, tmp_path, "fast") == {"speed": 10.0}


def test_a_part_that_there_is_not_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no part 'slow'; it has exact, fast"):
        run(1.0, tmp_path, "slow")
