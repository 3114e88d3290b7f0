"""``cosyd models``: list, pull, verify, info, rm."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cosyd.cli.common import aligned, console, megabytes, note, print_json, print_line, print_table
from cosyd.cli.settings import load_config
from cosyd.config.schema import Config
from cosyd.errors import ModelError
from cosyd.models.model import Model
from cosyd.models.pull import pull_all
from cosyd.models.registry import MODELS, lookup
from cosyd.models.store import ModelStore

Progress = Callable[[str, int, int], None]


def list_all(args: Namespace) -> int:
    store = _store(args)
    there = {name: store.installed(name) for name in MODELS}
    if args.json:
        print_json(
            [
                {"name": m.name, "installed": there[m.name], "bytes": m.size, "licence": m.licence}
                for m in MODELS.values()
            ]
        )
        return 0
    print_table(
        ("NAME", "THERE", "SIZE", "LICENCE", "WHAT"),
        [
            (m.name, "yes" if there[m.name] else "no", megabytes(m.size), m.licence, m.title)
            for m in MODELS.values()
        ],
    )
    return 0


def pull(args: Namespace) -> int:
    from cosyd.asr.recognizers import prepare

    loaded = load_config(args)
    store = ModelStore(loaded.paths.models)
    names = args.names or needed(loaded.config)
    with _progress() as progress:
        fetched = pull_all(names, store, progress)
    for name in dict.fromkeys(names):
        prepare(name, store.path(name))
        print_line(f"{name}: {'fetched' if name in fetched else 'there already'}, {store.path(name)}")
    return 0


def needed(config: Config) -> list[str]:
    """What is pulled when no name is given: the usual models, and what the configuration names."""
    usual = [model.name for model in MODELS.values() if not model.extra]
    named = [name for name in (config.asr.model, config.asr.second_pass) if name in MODELS]
    return list(dict.fromkeys([*usual, *filter(None, named)]))


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar on a terminal, else a line for each thing that is fetched."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console(stderr=True)) as bars:
        tasks: dict[str, int] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total or None)
            bars.update(tasks[what], completed=done, total=total or None)  # type: ignore[arg-type]

        yield show


class _Lines:
    """Says once what is being fetched."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, what: str, done: int, total: int) -> None:
        if what not in self._said:
            self._said.add(what)
            note(f"fetching {what}")


def verify(args: Namespace) -> int:
    store = _store(args)
    names = args.names or [name for name in MODELS if store.path(name).is_dir()]
    if not names and not args.json:
        print_line(f"no models in {store.root}")
    wrong = {name: reason for name in names if (reason := _fault(store, name)) is not None}
    if args.json:
        print_json([{"name": name, "ok": name not in wrong, "reason": wrong.get(name)} for name in names])
    else:
        for name in names:
            if name in wrong:
                print(f"cosyd: {wrong[name]}", file=sys.stderr)
            else:
                print_line(f"{name}: fine")
    return ModelError.exit_code if wrong else 0


def _fault(store: ModelStore, name: str) -> str | None:
    try:
        store.verify(name)
    except ModelError as error:
        return str(error)
    return None


def info(args: Namespace) -> int:
    store = _store(args)
    models = [lookup(name) for name in args.names or MODELS]
    if args.json:
        print_json([_as_object(model, store) for model in models])
        return 0
    print("\n\n".join(_as_text(model, store) for model in models))
    return 0


def _as_object(model: Model, store: ModelStore) -> dict[str, Any]:
    return {
        "name": model.name,
        "title": model.title,
        "licence": model.licence,
        "path": str(store.path(model.name)),
        "installed": store.installed(model.name),
        "source": _source(model),
        "files": [{"name": file.name, "bytes": file.size, "sha256": file.sha256} for file in model.files],
    }


def _as_text(model: Model, store: ModelStore) -> str:
    there = "" if store.installed(model.name) else f" (not there; run: cosyd models pull {model.name})"
    facts = [
        ("licence", model.licence),
        ("from", _source(model)),
        ("path", f"{store.path(model.name)}{there}"),
    ]
    files = [(file.name, megabytes(file.size), f"sha256 {file.sha256}") for file in model.files]
    lines = [f"{model.name}: {model.title}", *aligned(facts), *aligned(files)]
    return "\n  ".join(lines)


def _source(model: Model) -> str:
    return " and ".join(wheel.requirement for wheel in model.wheels)


def remove(args: Namespace) -> int:
    store = _store(args)
    for name in args.names:
        print_line(f"{name}: {'removed' if store.remove(name) else 'was not there'}")
    return 0


def _store(args: Namespace) -> ModelStore:
    return ModelStore(load_config(args).paths.models)
