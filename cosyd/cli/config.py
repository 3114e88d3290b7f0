"""``cosyd config``: check, show, schema."""

from __future__ import annotations

from argparse import Namespace

from cosyd.cli.common import print_json, print_table
from cosyd.cli.settings import load_config
from cosyd.config.load import leaf_keys, name_of, value_of
from cosyd.config.render import defaults_yaml, json_schema, scalar
from cosyd.errors import ConfigError


def check(args: Namespace) -> int:
    """Every fault at once."""
    try:
        loaded = load_config(args)
    except ConfigError as error:
        if not args.json:
            raise
        print_json({"ok": False, "problems": error.problems, "warnings": [], "files": []})
        return error.exit_code
    files = [str(path) for path in loaded.files]
    if args.json:
        print_json({"ok": True, "problems": [], "warnings": loaded.warnings, "files": files})
    else:
        print(f"fine: {', '.join(files) or 'no file, all defaults'}")
    return 0


def show(args: Namespace) -> int:
    """Each value that is in effect, and where it was written."""
    if args.defaults:
        print(defaults_yaml(), end="")
        return 0
    loaded = load_config(args)
    config = loaded.config
    values = {name_of(config, key): value_of(config, key) for key in leaf_keys(config)}
    if args.json:
        print_json({k: {"value": v, "origin": loaded.origins[k]} for k, v in values.items()})
        return 0
    print_table(
        ("KEY", "VALUE", "FROM"),
        [(key, scalar(value), loaded.origins[key]) for key, value in values.items()],
    )
    return 0


def schema(args: Namespace) -> int:
    """JSON Schema, for editors."""
    print_json(json_schema())
    return 0
