"""``cosyd run``: the daemon in the foreground."""

from __future__ import annotations

from argparse import Namespace

from cosyd.app import run as run_daemon
from cosyd.cli.settings import load_config
from cosyd.config.load import Loaded, load, named_files


def run(args: Namespace) -> int:
    def reload() -> Loaded:
        return load(named_files(args.config), args.overrides)

    return run_daemon(load_config(args), reload, lifeline=args.lifeline)
