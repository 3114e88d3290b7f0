"""From files, environment and command line to a validated configuration, or to every fault at once.

Later layers win: the files in their order, then ``COSYD_SECTION__KEY`` variables, then ``--set``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cosyd.config import checks
from cosyd.config.faults import explain, section_of
from cosyd.config.paths import Locations, Paths, default_locations
from cosyd.config.schema import Config
from cosyd.config.tree import (
    DEFAULT,
    Key,
    Node,
    Origin,
    Problem,
    assign,
    follow,
    merge,
    origin_of,
    plain,
    spell,
    without,
)
from cosyd.config.yamltree import MAX_BYTES, parse, parse_value
from cosyd.errors import ConfigError

PREFIX = "COSYD_"
ALIASES = {"COSYD_MODELS_DIR": ("paths", "models")}
# Read by the command line itself; by tests and benchmarks, which also start daemons.
NOT_CONFIGURATION = frozenset(
    {"COSYD_DEBUG", "COSYD_BENCH_MODEL", "COSYD_ENGINE_NETWORK", "COSYD_ENGINE_REPORT", "COSYD_FATBINS"}
    | {"COSYD_KERNEL_CACHE", "COSYD_MIXTURES"}
)

ENVIRONMENT_RANK = 10_000  # after any number of files
COMMAND_LINE_RANK = 20_000


@dataclass(frozen=True)
class Loaded:
    """A valid configuration.

    ``origins``: for each key, dotted, where its value was written (``FILE:LINE``, ``env NAME``,
    ``--set KEY`` or ``default``). ``files``: what was read.
    """

    config: Config
    origins: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    locations: Locations = field(default_factory=default_locations)

    @property
    def paths(self) -> Paths:
        return Paths.resolve(self.config.paths)


def load(
    locations: Locations | None = None,
    overrides: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """Read, merge, validate. ``overrides``: ``KEY=VALUE`` each. Raises ConfigError with all faults."""
    locations = default_locations() if locations is None else locations
    environ = os.environ if environ is None else environ
    files = locations.files()
    root = Node({}, DEFAULT)
    problems: list[Problem] = []
    for rank, path in enumerate(files):
        layer, faults = read_file(path, rank)
        problems += faults
        root = merge(root, layer) if layer is not None else root
    problems += _assign_all(root, _from_environment(environ))
    problems += _assign_all(root, _from_overrides(overrides))
    config, faults = validate(root)
    problems += faults
    if config is None or problems:
        raise ConfigError(_lines(problems))
    found = checks.warnings(config)
    notes = [Problem(origin_of(root, note.keys[0]), spell(root, note.keys[0]), note.what) for note in found]
    return Loaded(config, origins(config, root), tuple(_lines(notes)), tuple(files), locations)


def from_mapping(settings: Mapping[str, Any]) -> Config:
    """A dictionary as the YAML file would give it, validated. Raises ConfigError with all faults."""
    root = _tree(settings)
    config, problems = validate(root)
    if config is None or problems:
        raise ConfigError(_lines(problems))
    return config


def _tree(value: Any) -> Node:
    origin = Origin(0, "configuration")
    if isinstance(value, Mapping):
        return Node({str(key): _tree(item) for key, item in value.items()}, origin)
    if isinstance(value, list | tuple):
        return Node([_tree(item) for item in value], origin)
    return Node(value, origin)


def named_files(paths: Iterable[str | Path]) -> Locations | None:
    """The locations that ``-c`` names; None without any, which means the default ones."""
    entries = tuple(Path(path) for path in paths)
    return Locations(entries, required=True) if entries else None


def _lines(problems: Iterable[Problem]) -> list[str]:
    ordered = sorted(problems, key=lambda problem: (problem.origin, problem.key, problem.what))
    return list(dict.fromkeys(str(problem) for problem in ordered))


# --- layers --------------------------------------------------------------------------------------------


def read_file(path: Path, rank: int) -> tuple[Node | None, list[Problem]]:
    """One file. An empty one is an empty configuration."""
    whole = Origin(rank, str(path))
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        return None, [Problem(whole, "", f"cannot be read: {error.strerror}")]
    if len(content) > MAX_BYTES:
        return None, [Problem(whole, "", f"larger than {MAX_BYTES >> 20} MiB, this is no configuration")]
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return None, [Problem(Origin(rank, str(path), line), "", "is not UTF-8")]
    root, problems = parse(text, str(path), rank)
    if root is None or root.value is None:
        return None, problems
    if not isinstance(root.value, dict):
        what = "the file must be a mapping of sections, such as 'vad:'"
        return None, [*problems, Problem(root.origin, "", what)]
    # A section whose keys are all commented out is null in YAML, and means the defaults.
    return Node({k: v for k, v in root.value.items() if v.value is not None}, root.origin), problems


Assignment = tuple[tuple[str, ...], Node]


def _assign_all(root: Node, layer: Iterator[Assignment | Problem]) -> list[Problem]:
    """Put single values into the tree; what is wrong with them."""
    problems: list[Problem] = []
    for item in layer:
        if isinstance(item, Problem):
            problems.append(item)
            continue
        path, node = item
        what = assign(root, path, node)
        if what is not None:
            problems.append(Problem(node.origin, ".".join(path), what))
    return problems


def _from_environment(environ: Mapping[str, str]) -> Iterator[Assignment | Problem]:
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in NOT_CONFIGURATION:
            continue
        origin = Origin(ENVIRONMENT_RANK, f"env {name}")
        path = ALIASES.get(name) or tuple(name.removeprefix(PREFIX).lower().split("__"))
        if name in ALIASES:
            yield path, Node(environ[name] or None, origin)
        else:
            yield from _value(path, environ[name], origin)


def _from_overrides(overrides: Sequence[str]) -> Iterator[Assignment | Problem]:
    for rank, override in enumerate(overrides, COMMAND_LINE_RANK):
        key, separator, text = override.partition("=")
        origin = Origin(rank, f"--set {key}")
        if separator and key:
            yield from _value(tuple(key.strip().split(".")), text, origin)
        else:
            yield Problem(origin, "", "must be KEY=VALUE, such as vad.threshold=0.5")


def _value(path: tuple[str, ...], text: str, origin: Origin) -> Iterator[Assignment | Problem]:
    node, problems = parse_value(text, origin)
    yield from (Problem(origin, ".".join(path), problem.what) for problem in problems)
    if not problems:
        yield path, node


# --- validation ----------------------------------------------------------------------------------------


def validate(root: Node) -> tuple[Config | None, list[Problem]]:
    """The configuration, or None and every fault, those between keys included where both are sound."""
    try:
        config = Config.model_validate(plain(root))
    except ValidationError as error:
        explained = (explain(details) for details in error.errors(include_url=False))
        faults = dict(fault for fault in explained if fault is not None)
        problems = [Problem(origin_of(root, key), spell(root, key), what) for key, what in faults.items()]
        return None, problems + _between_sound_keys(root, set(faults))
    return config, [_problem(root, finding) for finding in checks.errors(config)]


def _between_sound_keys(root: Node, faulty: set[Key]) -> list[Problem]:
    """Faults between keys that are not faulty themselves: validated without the faulty ones."""
    try:
        config = Config.model_validate(plain(without(root, list(faulty))))
    except ValidationError:
        return []
    sound = [
        finding
        for finding in checks.errors(config)
        if not any(_touches(key, fault) for key in finding.keys for fault in faulty)
    ]
    return [_problem(root, finding) for finding in sound]


def _touches(key: Key, fault: Key) -> bool:
    """Whether one is the other or lies within it."""
    shorter = min(len(key), len(fault))
    return key[:shorter] == fault[:shorter]


def _problem(root: Node, finding: checks.Finding) -> Problem:
    """At the first of the keys that somebody wrote: the default of the other one is not at fault."""
    key = next((key for key in finding.keys if _written(root, key)), finding.keys[0])
    return Problem(origin_of(root, key), spell(root, finding.keys[0]), finding.what)


def _written(root: Node, key: Key) -> bool:
    return len(list(follow(root, key))) == len(key) + 1


# --- origins -------------------------------------------------------------------------------------------


def origins(config: Config, root: Node) -> dict[str, str]:
    """Where the value of each key comes from."""
    found: dict[str, str] = {}
    for key in leaf_keys(config):
        written = _written(root, key)
        found[name_of(config, key)] = str(origin_of(root, key) if written else DEFAULT)
    return found


def leaf_keys(config: Config) -> Iterator[Key]:
    """Every key that holds a value, sources by position."""
    for name, info in Config.model_fields.items():
        section = section_of(info.annotation)
        if section is None:
            continue
        if name == "sources":
            for index in range(len(config.sources)):
                yield from (("sources", index, key) for key in section.model_fields)
        else:
            yield from ((name, key) for key in section.model_fields)


def name_of(config: Config, key: Key) -> str:
    """``key`` dotted, sources by name."""
    if len(key) > 1 and isinstance(key[1], int):
        return ".".join(("sources", config.sources[key[1]].name, *map(str, key[2:])))
    return ".".join(map(str, key))


def value_of(config: Config, key: Key) -> Any:
    """The value at ``key``."""
    value: Any = config
    for part in key:
        value = value[part] if isinstance(part, int) else getattr(value, part)
    return value
