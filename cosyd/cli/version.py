"""``cosyd version``."""

from __future__ import annotations

import platform
from argparse import Namespace

from cosyd.cli.common import print_json
from cosyd.version import VERSION


def run(args: Namespace) -> int:
    if args.json:
        print_json({"cosyd": VERSION, "python": platform.python_version(), "machine": platform.machine()})
    else:
        print(f"cosyd {VERSION}")
    return 0
