"""The command line: the only place that prints or exits. ``main`` is the entry point."""

from cosyd.cli.program import main

__all__ = ["main"]
