"""What the command line's parser is made of: options that several commands have, kinds of values."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from cosyd.errors import UsageError


class Parser(argparse.ArgumentParser):
    """Faults are UsageErrors, so that they look like all other errors."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see: {self.prog} --help")


Commands = argparse._SubParsersAction  # the class has no public name


def debug() -> Parser:
    """``--debug``, before or after the command. Absent it sets nothing, or one place would undo the other."""
    parent = Parser(add_help=False)
    parent.add_argument(
        "--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks and debug messages"
    )
    return parent


def command(commands: Commands[Parser], name: str, summary: str, work: str, details: str = "") -> Parser:
    """``work``: the module in cosyd.cli and, where it is not ``run``, the function in it."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=details or summary[0].upper() + summary[1:] + ".",
        parents=[debug()],
    )
    module, _, function = work.partition(":")
    parser.set_defaults(module=f"cosyd.cli.{module}", function=function or "run")
    return parser


def group(commands: Commands[Parser], name: str, summary: str) -> Commands[Parser]:
    parser = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
    return parser.add_subparsers(metavar="ACTION", required=True, parser_class=Parser)


def with_configuration(parser: Parser) -> Parser:
    parser.add_argument(
        "-c",
        "--config",
        metavar="FILE",
        action="append",
        default=[],
        help="read this file instead of the usual ones; may be given several times, later ones win",
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="overrides",
        help="set one key, such as vad.threshold=0.5 or sources.mic.device=2",
    )
    return parser


def with_json(parser: Parser, what: str = "print JSON") -> Parser:
    parser.add_argument("--json", action="store_true", help=what)
    return parser


def with_source(parser: Parser) -> Parser:
    parser.add_argument("--source", metavar="NAME", help="the source to use; the default is the first")
    return parser


def with_connection(parser: Parser) -> Parser:
    parser.add_argument(
        "--connect", metavar="ADDR", help="address of the daemon; the default is the one configured here"
    )
    keys = "CURVE over TCP: "
    parser.add_argument(
        "--key",
        type=Path,
        metavar="FILE",
        help=keys + "own secret key; default: client.key_secret in paths.keys",
    )
    parser.add_argument(
        "--server-key",
        type=Path,
        metavar="FILE",
        help=keys + "the daemon's server.key; default: in paths.keys",
    )
    return parser


def with_names(parser: Parser, default: str, required: bool = False) -> Parser:
    parser.add_argument(
        "names", metavar="NAME", nargs="+" if required else "*", help=f"models; the default is {default}"
    )
    return parser


# --- kinds of values ------------------------------------------------------------------------------------


def positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return value


def degrees(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 1e9
    if not -360 <= value <= 360:
        raise argparse.ArgumentTypeError(f"must be degrees, -360 to 360, not {text!r}")
    return value


def natural(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"must be a whole number, 0 or more, not {text!r}")
    return int(text)
