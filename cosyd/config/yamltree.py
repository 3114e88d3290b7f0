"""Reads YAML into nodes that know their line. The only importer of yaml.

The scalars are those of YAML 1.2's core schema: ``off``, ``no`` and ``12:30`` are text, ``0.5`` and ``1e3``
are numbers, ``true``, ``false`` and ``null`` are what they say. Keys are text, no key appears twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import yaml

from cosyd.config.tree import Node, Origin, Problem, Scalar

MAX_BYTES = 1 << 20  # a configuration is some kB; more is a mistake, such as a recording given with -c
MAX_NODES = 20_000  # aliases of aliases can make a small file explode
MAX_DEPTH = 50  # the schema needs four levels

_TAG = "tag:yaml.org,2002:"
_RESOLVERS: tuple[tuple[str, str, str], ...] = (
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
)


class _CoreLoader(yaml.SafeLoader):
    """SafeLoader with the core schema's implicit types alone."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _name, _pattern, _first in _RESOLVERS:
    for _character in _first:
        _CoreLoader.yaml_implicit_resolvers.setdefault(_character.strip("\0"), []).append(
            (_TAG + _name, re.compile(rf"(?:{_pattern})\Z"))
        )


def _implicit_tag(text: str) -> str:
    """The type of a plain scalar."""
    for tag, pattern in _CoreLoader.yaml_implicit_resolvers.get(text[:1], []):
        if pattern.match(text):
            return tag
    return _TAG + "str"


def _to_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _to_int(text: str) -> int:
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


def _to_float(text: str) -> float:
    return float(text.replace(".inf", "inf").replace(".nan", "nan")) if "." in text[:2] else float(text)


_CONSTRUCTORS: dict[str, Callable[[str], Scalar]] = {
    _TAG + "null": lambda _: None,
    _TAG + "bool": _to_bool,
    _TAG + "int": _to_int,
    _TAG + "float": lambda text: _to_float(text.lower()),
    _TAG + "str": str,
}


def parse(text: str, where: str, rank: int) -> tuple[Node | None, list[Problem]]:
    """The document, or None when there is none, and everything that is wrong with it."""
    reader = _Reader(where, rank)
    return reader.read(text), reader.problems


def parse_value(text: str, origin: Origin) -> tuple[Node, list[Problem]]:
    """A value from the command line or the environment.

    It is YAML when it begins with a bracket or quote, else one scalar: device names such as
    ``USB Audio: - (hw:1,0)`` are no mappings.
    """
    text = text.strip()
    if text[:1] in ("[", "{", '"', "'"):
        node, problems = parse(text, origin.where, origin.rank)
        relabelled = [Problem(origin, p.key, p.what) for p in problems]
        return (_relabel(node, origin) if node else Node(None, origin)), relabelled
    tag = _implicit_tag(text)
    try:
        return Node(_CONSTRUCTORS[tag](text), origin), []
    except ValueError:
        return Node(text, origin), []


def _relabel(node: Node, origin: Origin) -> Node:
    """The same value, all of it from ``origin``."""
    if isinstance(node.value, dict):
        return Node({key: _relabel(child, origin) for key, child in node.value.items()}, origin)
    if isinstance(node.value, list):
        return Node([_relabel(child, origin) for child in node.value], origin)
    return Node(node.value, origin)


@dataclass
class _Reader:
    """One file. Collects problems instead of stopping at the first, where the syntax permits it."""

    where: str
    rank: int
    problems: list[Problem] = field(default_factory=list)
    nodes: int = 0

    def read(self, text: str) -> Node | None:
        try:
            root = yaml.compose(text, Loader=_CoreLoader)
        except yaml.MarkedYAMLError as error:
            self._complain(_line(error), _syntax(error))
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            self._complain(line, f"character U+{error.character:04X} is not allowed in YAML")
        except RecursionError:
            self._complain(1, f"nested deeper than {MAX_DEPTH} levels")
        else:
            return self._build(root, (), root.start_mark.line + 1, ()) if root is not None else None
        return None

    def _complain(self, line: int, what: str, key: tuple[str, ...] = ()) -> None:
        self.problems.append(Problem(Origin(self.rank, self.where, line), ".".join(key), what))

    def _build(self, node: yaml.Node, key: tuple[str, ...], line: int, above: tuple[int, ...]) -> Node | None:
        """None, and a problem, for what cannot be a value.

        ``above``: the collections around this one, to notice an alias to one of them.
        """
        self.nodes += 1
        if self.nodes > MAX_NODES:
            if self.nodes == MAX_NODES + 1:
                self._complain(line, f"more than {MAX_NODES} values")
            return None
        if id(node) in above or len(above) >= MAX_DEPTH:
            self._complain(line, "contains itself" if id(node) in above else "nested too deeply", key)
            return None
        origin = Origin(self.rank, self.where, line)
        if isinstance(node, yaml.MappingNode):
            return Node(self._mapping(node, key, (*above, id(node))), origin)
        if isinstance(node, yaml.SequenceNode):
            return Node(self._sequence(node, key, (*above, id(node))), origin)
        return self._scalar(node, key, origin)

    def _mapping(
        self, node: yaml.MappingNode, key: tuple[str, ...], above: tuple[int, ...]
    ) -> dict[str, Node]:
        built: dict[str, Node] = {}
        for name_node, value_node in node.value:
            line = name_node.start_mark.line + 1
            if not isinstance(name_node, yaml.ScalarNode):
                self._complain(line, "a key has to be text", key)
                continue
            name = name_node.value
            if name in built:
                self._complain(line, f"appears twice, first in line {built[name].origin.line}", (*key, name))
                continue
            value = self._build(value_node, (*key, name), line, above)
            if value is not None:
                built[name] = value
        return built

    def _sequence(self, node: yaml.SequenceNode, key: tuple[str, ...], above: tuple[int, ...]) -> list[Node]:
        entries = (
            self._build(child, (*key, str(i)), child.start_mark.line + 1, above)
            for i, child in enumerate(node.value)
        )
        return [entry for entry in entries if entry is not None]

    def _scalar(self, node: yaml.Node, key: tuple[str, ...], origin: Origin) -> Node | None:
        construct = _CONSTRUCTORS.get(node.tag)
        if construct is None:
            self._complain(origin.line, f"the tag {node.tag} is not allowed", key)
            return None
        try:
            return Node(construct(node.value), origin)
        except ValueError:
            self._complain(origin.line, f"not a usable {node.tag.removeprefix(_TAG)}", key)
            return None


def _line(error: yaml.MarkedYAMLError) -> int:
    mark = error.problem_mark or error.context_mark
    return mark.line + 1 if mark is not None else 1


def _syntax(error: yaml.MarkedYAMLError) -> str:
    """The parser's complaint, in one line, with the usual cause where it is known."""
    problem = (error.problem or "not valid YAML").replace("\n", " ")
    if "'\\t'" in problem:
        return "a tab where YAML wants spaces"
    if "mapping values are not allowed" in problem:
        return "not valid YAML: a second ':' in one line, or wrong indentation"
    if "expected a single document" in (error.context or ""):
        return "only one document is allowed, here begins a second ('---')"
    context = f" {error.context.strip()}" if error.context else ""
    return f"not valid YAML:{context.replace(chr(10), ' ')}{',' if context else ''} {problem}"
