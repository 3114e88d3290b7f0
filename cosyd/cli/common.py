"""What commands share: configuration from their options, JSON, plain tables, the terminal."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cosyd.config.load import Loaded, load, named_files
from cosyd.config.schema import Config, SourceConfig
from cosyd.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console


def load_config(args: Namespace, overrides: Sequence[str] = ()) -> Loaded:
    """The configuration that ``-c`` and ``--set`` ask for; ``overrides`` win over both. Warnings are told."""
    loaded = load(named_files(args.config), [*args.overrides, *overrides])
    for warning in loaded.warnings:
        note(f"warning: {warning}")
    return loaded


def pick_source(config: Config, name: str | None) -> SourceConfig:
    """The source of that name, or the first. Raises UsageError."""
    if name is None:
        return config.sources[0]
    names = [source.name for source in config.sources]
    if name not in names:
        raise UsageError(f"no source named {name!r}; the configuration has {', '.join(names)}")
    return config.sources[names.index(name)]


# --- output --------------------------------------------------------------------------------------------


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
