"""What all commands share: JSON, plain tables, the terminal."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def note(text: str) -> None:
    """A line for people, beside the results."""
    print(f"cosyd: {text}", file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def print_line(text: str) -> None:
    """A result that others wait for: out at once, also into a pipe."""
    print(text, flush=True)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns; the head is bold on a terminal."""
    lines = aligned([head, *rows])
    print(f"\x1b[1m{lines[0]}\x1b[0m" if colour(sys.stdout) else lines[0])
    for line in lines[1:]:
        print(line)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines, two spaces between columns."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_pad(cell, w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def _pad(cell: str, columns: int) -> str:
    return cell + " " * (columns - width(cell))


def width(text: str) -> int:
    """Columns that a text takes on a terminal."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def printable(text: str) -> str:
    """Without control characters: text from elsewhere must not steer the terminal."""
    return "".join("�" if unicodedata.category(c) in ("Cc", "Cf") else c for c in text)


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


# --- the terminal --------------------------------------------------------------------------------------


def colour(stream: Any) -> bool:
    """Whether colour is wanted there: on a terminal that can, and NO_COLOR is not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def console(*, stderr: bool = False) -> Console:
    """A rich console. It has no colour where ``colour`` says so."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, no_color=not colour(stream), highlight=False, markup=False, emoji=False)
