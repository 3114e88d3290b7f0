"""Runs one command: parses, dispatches, and turns every way to fail into a line and an exit code.

Nothing is imported here that a command does not need: ``cosyd version`` takes a few hundredths of a second.
"""

from __future__ import annotations

import importlib
import logging
import os
import signal
import sys
import traceback
from argparse import Namespace
from collections.abc import Sequence
from types import FrameType, TracebackType

from cosyd.cli.parser import build_parser
from cosyd.errors import ConfigError, CosydError

INTERRUPTED = 130
# NumPy's matrix products are small here, many a second: threads that share one wait for each other, and a
# microphone array took three times the processor time. Child processes inherit it.
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv`` (default: ``sys.argv[1:]``). Returns the exit code."""
    sys.excepthook = _report_fault
    debug = _truthy(os.environ.get("COSYD_DEBUG", ""))
    try:
        args = build_parser().parse_args(argv)
        debug = args.debug = getattr(args, "debug", False) or debug
        return _run(args)
    except SystemExit as end:  # --help, or a signal
        return end.code if isinstance(end.code, int) else 0
    except CosydError as error:
        if debug:
            traceback.print_exc()
        complain(error)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return _reader_left()


def _run(args: Namespace) -> int:
    """Import the command's module and run it; what it printed is out when this returns."""
    is_daemon = getattr(args, "is_daemon", False)
    if args.debug or is_daemon:  # a daemon's log is read by whoever mends it
        sys.excepthook = sys.__excepthook__
    if not is_daemon:
        _end_in_order()
        level = logging.DEBUG if args.debug else logging.WARNING
        logging.basicConfig(level=level, format="cosyd: %(message)s", stream=sys.stderr)
    for name in ONE_THREAD:
        os.environ.setdefault(name, "1")
    code: int = getattr(importlib.import_module(args.module), args.function)(args)
    sys.stdout.flush()
    return code


def _end_in_order() -> None:
    """SIGTERM and a closed terminal unwind the stack, so that no child, socket or ring is left behind."""

    def end(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)


def complain(error: CosydError) -> None:
    """One line for people, or one for each fault of a configuration."""
    lines = error.problems if isinstance(error, ConfigError) else (str(error),)
    for line in lines:
        print(f"cosyd: {line}", file=sys.stderr)


def _reader_left() -> int:
    """Whoever read our output has seen enough, as ``head`` has: nothing is wrong."""
    # The interpreter flushes stdout once more when it ends, which would complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _truthy(value: str) -> bool:
    return value.strip().lower() not in ("", "0", "false", "no", "off")


def _report_fault(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:  # the signature of sys.excepthook
    """A fault of cosyd itself: the interpreter ends with 1 after this."""
    print(
        f"cosyd: internal error: {kind.__name__}: {error}; run it again with --debug to see where",
        file=sys.stderr,
    )
