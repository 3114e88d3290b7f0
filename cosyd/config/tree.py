"""Configuration before it is validated: plain values that remember where each came from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Scalar = str | int | float | bool | None
Key = tuple[str | int, ...]

SOURCES: Key = ("sources",)
DEFAULT_SOURCE = "mic"  # the name of a source that gives none; SourceConfig's default, pinned by a test


@dataclass(frozen=True, order=True)
class Origin:
    """Where a value was written. ``rank`` orders the layers: later ones win and are reported later."""

    rank: int
    where: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.where}:{self.line}" if self.line else self.where


DEFAULT = Origin(-1, "default")


@dataclass(frozen=True)
class Node:
    """A value and its origin. In a mapping the origin is the line of the key."""

    value: Scalar | list[Node] | dict[str, Node]
    origin: Origin


@dataclass(frozen=True)
class Problem:
    """One fault: where, which key, what is wrong. ``key`` is empty for a fault of a whole file."""

    origin: Origin
    key: str
    what: str

    def __str__(self) -> str:
        line = ": ".join(part for part in (str(self.origin), self.key, self.what) if part)
        return "".join(character if character.isprintable() else "�" for character in line)


def plain(node: Node) -> Any:
    """The value without its origins."""
    if isinstance(node.value, dict):
        return {key: plain(child) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [plain(child) for child in node.value]
    return node.value


def merge(base: Node, over: Node, key: Key = ()) -> Node:
    """``over`` on top of ``base``: mappings merge, ``sources`` merge by name, all else is replaced."""
    if isinstance(base.value, dict) and isinstance(over.value, dict):
        merged = dict(base.value)
        for name, child in over.value.items():
            merged[name] = merge(merged[name], child, (*key, name)) if name in merged else child
        return Node(merged, over.origin)
    if key == SOURCES and isinstance(base.value, list) and isinstance(over.value, list):
        return Node(_merge_sources(base.value, over.value), over.origin)
    return over


def _merge_sources(base: list[Node], over: list[Node]) -> list[Node]:
    merged = list(base)
    for node in over:
        name = source_name(node)
        same = [i for i, known in enumerate(base) if name is not None and source_name(known) == name]
        if same:
            merged[same[0]] = merge(merged[same[0]], node, (*SOURCES, same[0]))
        else:
            merged.append(node)
    return merged


def source_name(node: Node) -> str | None:
    """The name of an entry of ``sources``; None if it has no usable one."""
    if not isinstance(node.value, dict):
        return None
    name = node.value.get("name")
    if name is None:
        return DEFAULT_SOURCE
    return name.value if isinstance(name.value, str) else None


def follow(root: Node, key: Key) -> Iterator[Node]:
    """The nodes along ``key`` as far as they exist, the root first."""
    node: Node | None = root
    for part in (*key, None):
        if node is None:
            return
        yield node
        node = _child(node, part)


def _child(node: Node, part: str | int | None) -> Node | None:
    if isinstance(node.value, dict):
        return node.value.get(part) if isinstance(part, str) else None
    if isinstance(node.value, list) and isinstance(part, int) and 0 <= part < len(node.value):
        return node.value[part]
    return None


def origin_of(root: Node, key: Key) -> Origin:
    """Where ``key``, or else the nearest thing around it, was written."""
    return list(follow(root, key))[-1].origin


def spell(root: Node, key: Key) -> str:
    """``key`` as people write it: dotted, sources by name where they have one."""
    parts = [str(part) for part in key]
    if len(key) > 1 and key[:1] == SOURCES:
        along = list(follow(root, key[:2]))
        name = source_name(along[2]) if len(along) > 2 else None
        parts[1] = name if name is not None else parts[1]
    return ".".join(parts)


def without(root: Node, keys: Sequence[Key]) -> Node:
    """A copy in which the values at ``keys`` are missing; list entries of ``sources`` become empty."""
    return _without(root, (), set(keys))


def _without(node: Node, at: Key, gone: set[Key]) -> Node:
    if isinstance(node.value, dict):
        kept = {k: _without(v, (*at, k), gone) for k, v in node.value.items() if (*at, k) not in gone}
        return Node(kept, node.origin)
    if isinstance(node.value, list):
        entries = [_without(v, (*at, i), gone) for i, v in enumerate(node.value)]
        dropped = {i for i in range(len(entries)) if (*at, i) in gone}
        if at == SOURCES:  # positions of the others have to stay
            return Node(
                [Node({}, v.origin) if i in dropped else v for i, v in enumerate(entries)], node.origin
            )
        return Node([v for i, v in enumerate(entries) if i not in dropped], node.origin)
    return node


def assign(root: Node, path: Sequence[str], node: Node) -> str | None:
    """Put ``node`` at a dotted path of ``root`` in place. What is wrong with the path, or None."""
    if not all(path):
        return "not a key: write SECTION.KEY"
    here = root
    for depth, part in enumerate(path[:-1]):
        found = _step(here, part, node.origin, is_sources=path[0] == "sources" and depth == 0)
        if isinstance(found, str):
            return found
        here = found
    return _put(here, path[-1], node)


def _put(parent: Node, last: str, node: Node) -> str | None:
    if isinstance(parent.value, dict):
        parent.value[last] = node
        return None
    if not isinstance(parent.value, list):
        return "not a section, it has no keys"
    index = _index(parent.value, last)
    if index is None:
        return f"no entry {last!r}; there are {_entries(parent.value)}"
    parent.value[index] = node
    return None


def _step(here: Node, part: str, origin: Origin, *, is_sources: bool) -> Node | str:
    """One level down, made where it is missing."""
    if isinstance(here.value, dict):
        if part not in here.value:
            first = Node({"name": Node(DEFAULT_SOURCE, DEFAULT)}, DEFAULT)
            here.value[part] = Node([first], DEFAULT) if is_sources else Node({}, origin)
        return here.value[part]
    if isinstance(here.value, list):
        index = _index(here.value, part)
        return (
            here.value[index] if index is not None else f"no entry {part!r}; there are {_entries(here.value)}"
        )
    return "not a section, it has no keys"


def _index(nodes: list[Node], part: str) -> int | None:
    """An entry by source name, by the name as an environment variable spells it, or by number."""
    names = [source_name(node) for node in nodes]
    if part in names:
        return names.index(part)
    spelled = [(name or "").replace("-", "_") for name in names]
    if part.replace("-", "_") in spelled:
        return spelled.index(part.replace("-", "_"))
    if part.isascii() and part.isdigit() and len(part) < 6 and int(part) < len(nodes):
        return int(part)
    return None


def _entries(nodes: list[Node]) -> str:
    names = [source_name(node) or str(i) for i, node in enumerate(nodes)]
    return ", ".join(names) or "none"
