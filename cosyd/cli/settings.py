"""The configuration that a command's options ask for."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from cosyd.cli.common import note
from cosyd.config.load import Loaded, load, named_files
from cosyd.config.schema import Config, SourceConfig
from cosyd.errors import UsageError


def load_config(args: Namespace, overrides: Sequence[str] = ()) -> Loaded:
    """The configuration that ``-c`` and ``--set`` ask for; ``overrides`` win over both. Warnings are told."""
    loaded = load(named_files(args.config), [*args.overrides, *overrides])
    for warning in loaded.warnings:
        note(f"warning: {warning}")
    return loaded


def pick_source(config: Config, name: str | None) -> SourceConfig:
    """The source of that name, or the first. Raises UsageError."""
    if name is None:
        return config.sources[0]
    names = [source.name for source in config.sources]
    if name not in names:
        raise UsageError(f"no source named {name!r}; the configuration has {', '.join(names)}")
    return config.sources[names.index(name)]
