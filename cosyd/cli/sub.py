"""``cosyd sub``: events as they come, for people or as JSON lines."""

from __future__ import annotations

from argparse import Namespace
from itertools import islice

from cosyd.cli.common import print_line
from cosyd.cli.describe import describe
from cosyd.cli.endpoints import find_daemon, open_client
from cosyd.publish.messages import encode

EVERYTHING = ("",)


def run(args: Namespace) -> int:
    connection = find_daemon(args)
    with open_client(connection, tuple(args.topics) or EVERYTHING) as client:
        for message in islice(client, args.count):
            print_line(encode(message)[1].decode() if args.json else describe(message))
    return 0
