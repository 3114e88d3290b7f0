"""What the schema says of a value, in words: ranges, types, and what was probably meant."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable
from typing import Any, Literal, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from cosyd.config.schema import Config
from cosyd.config.tree import Key

SHOWN = 60  # characters of a wrong value that a message repeats

_NAMES: dict[object, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    type(None): "null",
}


def locate(loc: Key) -> tuple[Key, FieldInfo | None]:
    """The part of a pydantic location that is configuration, and the last field of it.

    pydantic appends the names of union members and the like, which mean nothing to people.
    """
    model: type[BaseModel] | None = Config
    field: FieldInfo | None = None
    for depth, part in enumerate(loc):
        if isinstance(part, int):
            continue
        if model is None or part not in model.model_fields:
            return (loc[: depth + 1], None) if model is not None else (loc[:depth], field)
        field = model.model_fields[part]
        model = section_of(field.annotation)
    return loc, field


def section_of(annotation: Any) -> type[BaseModel] | None:
    """The section that an annotation holds, directly or as the entries of a tuple."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = [section_of(argument) for argument in get_args(annotation)]
    return next((section for section in found if section is not None), None)


def explain(error: ErrorDetails) -> tuple[Key, str] | None:
    """The key that is wrong, and what is wrong with it; None for what other errors tell already."""
    if error["type"] == "too_short" and error["input"]:
        return None  # pydantic does not count entries that have faults of their own
    key, field = locate(error["loc"])
    if error["type"] == "extra_forbidden":
        return key, "unknown key" + _meant(str(key[-1]), keys_beside(key))
    if field is None:
        return key, str(error["msg"])
    element = isinstance(key[-1], int)
    value = error["input"]
    wanted = f"must be {_expected(field, element=element)}"
    what = f"{wanted}, not {_show(value)}"
    return key, what + (_meant(value, choices(field.annotation)) if isinstance(value, str) else "")


def keys_beside(key: Key) -> list[str]:
    """The keys that are allowed where ``key`` stands."""
    model: type[BaseModel] | None = Config
    for part in key[:-1]:
        if isinstance(part, str) and model is not None and part in model.model_fields:
            model = section_of(model.model_fields[part].annotation)
    return list(model.model_fields) if model is not None else []


def _meant(wrong: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(wrong.lower().replace("-", "_"), list(known), n=1, cutoff=0.6)
    return f", did you mean {close[0]!r}?" if close else ""


def _show(value: Any) -> str:
    """A wrong value as it would be written in YAML, shortened."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list" if value else "an empty list"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    text = repr(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


# --- what a field takes --------------------------------------------------------------------------------


def _expected(field: FieldInfo, *, element: bool) -> str:
    """``a whole number, 2 to 600``; for an element of a list what the element has to be."""
    annotation = field.annotation
    if element:
        return " or ".join(type_names(annotation, element=True))
    limits = bounds(field)
    names = [name for name in type_names(annotation) if name != "null"]
    ending = " or null" if len(names) < len(type_names(annotation)) else ""
    pattern = _pattern(field)
    detail = f" of {pattern}" if pattern else f", {limits}," if limits and ending else f", {limits}"
    return " or ".join(names) + (detail if limits or pattern else "") + ending


def _pattern(field: FieldInfo) -> str:
    """In words the only pattern that the schema has, that of names."""
    has_one = any(getattr(item, "pattern", None) for item in field.metadata)
    return "a-z, 0-9, - and _, at most 32, beginning with a letter or digit" if has_one else ""


def type_names(annotation: Any, *, element: bool = False) -> list[str]:
    """The alternatives of an annotation in words."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ["one of " + ", ".join(str(choice) for choice in arguments)]
    if origin is typing.Annotated:
        return type_names(arguments[0], element=element)
    if origin in (types.UnionType, typing.Union):
        names = [name for argument in arguments for name in type_names(argument, element=element)]
        return [name for name in names if name != "null"] if element else names
    if origin is tuple:
        inner = type_names(arguments[0])
        return inner if element else ["a list"]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return ["a section with keys"]
    return [_NAMES.get(annotation, str(annotation))]


def choices(annotation: Any) -> list[str]:
    """The values of a Literal; empty for anything else."""
    return [str(choice) for choice in get_args(annotation)] if get_origin(annotation) is Literal else []


def bounds(field: FieldInfo) -> str:
    """``2 to 600``, ``above 0, below 1``, ``at least 10``; empty without bounds."""
    ge, gt, le, lt = (
        _limit(field, kind, name)
        for kind, name in (
            (annotated_types.Ge, "ge"),
            (annotated_types.Gt, "gt"),
            (annotated_types.Le, "le"),
            (annotated_types.Lt, "lt"),
        )
    )
    if ge is not None and le is not None:
        return f"{ge} to {le}"
    words = (("at least", ge), ("above", gt), ("at most", le), ("below", lt))
    least = _limit(field, annotated_types.MinLen, "min_length")
    listed = [f"{word} {limit}" for word, limit in words if limit is not None]
    return ", ".join(listed + ([f"at least {least} of them"] if least is not None else []))


def _limit(field: FieldInfo, kind: type, name: str) -> Any:
    return next((getattr(item, name) for item in field.metadata if isinstance(item, kind)), None)
