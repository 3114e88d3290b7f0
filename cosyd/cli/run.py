"""``cosyd run``: the daemon in the foreground."""

from __future__ import annotations

from argparse import Namespace

from cosyd.cli.common import load_config
from cosyd.config.load import Loaded, load, named_files


def run(args: Namespace) -> int:
    from cosyd import app

    def reload() -> Loaded:
        return load(named_files(args.config), args.overrides)

    return app.run(load_config(args), reload)
