"""``cosyd doctor``: looks at everything that can be wrong on a machine and says what to do about it."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict

from cosyd.cli.common import colour, print_json, print_line, printable
from cosyd.cli.doctor.check import Check, Setup, fail, ok, warn
from cosyd.cli.settings import load_config
from cosyd.config.load import Loaded
from cosyd.config.schema import Config
from cosyd.errors import ConfigError

FAULT = 1
_COLOURS = {"ok": "32", "warn": "33", "fail": "31"}


def run(args: Namespace) -> int:
    found: list[Check] = []
    for check in examine(args):
        found.append(check)
        if not args.json:
            _show(check)
    failed = [check for check in found if check.status == "fail"]
    if args.json:
        print_json({"ok": not failed, "checks": [asdict(check) for check in found]})
    else:
        print_line(_verdict(found))
    return FAULT if failed else 0


def examine(args: Namespace) -> Iterator[Check]:
    """All checks, as they are done. Each area imports what it needs when its turn comes."""
    try:
        loaded = load_config(args)
    except ConfigError as error:
        yield from (
            fail("config", problem, "correct it; the rest is checked with defaults")
            for problem in error.problems
        )
        loaded = Loaded(Config())
    else:
        files = ", ".join(map(str, loaded.files)) or "no file, all defaults"
        yield ok("config", files)
        yield from (warn("config", warning) for warning in loaded.warnings)
    from cosyd.cli.doctor import audio, daemon, engines, gpu, models, system

    setup = Setup(loaded, listen=not args.quick and not daemon.running(loaded))
    for area in (audio, models, gpu, engines, system, daemon):
        yield from area.examine(setup)


def _show(check: Check) -> None:
    word = f"{check.status:<4}"
    if colour(sys.stdout):
        word = f"\x1b[{_COLOURS[check.status]}m{word}\x1b[0m"
    print_line(f"{word}  {check.name:<24} {printable(check.message)}")
    if check.remedy:
        print_line(f"      {'':<24} → {printable(check.remedy)}")


def _verdict(found: list[Check]) -> str:
    failed = sum(check.status == "fail" for check in found)
    warned = sum(check.status == "warn" for check in found)
    if failed:
        return f"{failed} of {len(found)} checks failed"
    return f"all {len(found)} checks are fine" + (f", {warned} with a warning" if warned else "")
