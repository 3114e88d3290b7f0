"""``cosyd keys``: CURVE keys for the daemon and for its clients over TCP."""

from __future__ import annotations

from argparse import Namespace

from cosyd.cli.common import print_line
from cosyd.cli.settings import load_config
from cosyd.publish.curve import create_keys


def run(args: Namespace) -> int:
    public, secret = create_keys(load_config(args).paths.keys, args.name)
    print_line(f"public key: {public}")
    print_line(f"secret key: {secret}")
    return 0
