"""``cosyd transcribe``: recordings to text through the daemon's own pipeline."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from cosyd.asr.recognizers import OF_MANY_LANGUAGES, hears
from cosyd.cli.common import console, note, print_line, printable
from cosyd.cli.program import complain
from cosyd.cli.settings import load_config
from cosyd.client import AsrFinal
from cosyd.config.schema import Config
from cosyd.runtime.offline import transcribe

Progress = Callable[[Path, float], None]


def run(args: Namespace) -> int:
    config = _configuration(args)
    show = _json_line if args.json else _text_line(many=len(args.files) > 1)
    with _progress() as progress:
        failures = transcribe(args.files, config, realtime=args.realtime, on_final=show, on_progress=progress)
    for failure in failures:
        complain(failure)
    return failures[-1].exit_code if failures else 0


def _configuration(args: Namespace) -> Config:
    """A language that the configured model does not hear brings its own model, unless one is named."""
    named = {"asr.model": args.model, "asr.language": args.language}
    config = load_config(args, [f"{key}={value}" for key, value in named.items() if value]).config
    asked = args.language is not None and args.model is None
    if asked and not hears(config.asr.model, config.asr.language):
        note(f"{config.asr.model} hears English only; using {OF_MANY_LANGUAGES}")
        asr = config.asr.model_copy(update={"model": OF_MANY_LANGUAGES})
        config = config.model_copy(update={"asr": asr})
    return config


def _json_line(file: Path, final: AsrFinal) -> None:
    """The message as the daemon would publish it, with ``file``."""
    print_line(msgspec.json.encode({"file": str(file), **_fields(final)}).decode())


def _fields(final: AsrFinal) -> dict[str, object]:
    plain: dict[str, object] = msgspec.to_builtins(final)
    return plain


def _text_line(*, many: bool) -> Callable[[Path, AsrFinal], None]:
    def show(file: Path, final: AsrFinal) -> None:
        name = f"{file}: " if many else ""
        print_line(printable(f"{name}{final.start:8.2f}  {final.shown}"))

    return show


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """Seconds done of each file, on a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bars:
        task = bars.add_task("loading the models")

        def show(file: Path, done_s: float) -> None:
            bars.update(task, description=f"{printable(file.name)}: {done_s:.1f} s of audio")

        yield show
