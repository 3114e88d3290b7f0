"""The schema in other forms: the commented file of all defaults, tables for people, JSON Schema."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from cosyd.config.faults import bounds, section_of, type_names
from cosyd.config.reload import is_live
from cosyd.config.schema import Config

WIDTH = 100  # columns of a comment
_UNITS = {
    "_ms": "milliseconds",
    "_s": "seconds",
    "_h": "hours",
    "_hz": "Hz",
    "_mb": "MB",
    "_deg": "degrees",
    "_db": "dB",
    "_m": "metres",
}
# Words that other YAML readers, of version 1.1, take for something else than text.
_AMBIGUOUS = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null", "~"])

HEADER = """\
cosyd: every key with its default. Made from the schema by `cosyd config show --defaults`.
Read after this one: conf.d/*.yaml, COSYD_SECTION__KEY in the environment, --set SECTION.KEY=VALUE.
live: applied when this file is saved. restart: applied at the next start.
Check it with `cosyd config check`."""


def defaults_yaml() -> str:
    """``etc/cosyd.yaml``."""
    lines = [f"# {line}" for line in HEADER.splitlines()]
    for name, info in Config.model_fields.items():
        section = section_of(info.annotation)
        if section is None:
            continue
        lines += ["", *_comment(_sentence(section), ""), f"{name}:"]
        lines += _source_lines(section) if name == "sources" else _section_lines(name, section)
    return "\n".join(lines) + "\n"


def _sentence(section: type[BaseModel]) -> str:
    return " ".join((section.__doc__ or "").split())


def _section_lines(name: str, section: type[BaseModel]) -> Iterator[str]:
    for key, info in section.model_fields.items():
        yield from _comment(remark(name, key, info), "  ")
        yield f"  {key}: {scalar(info.default)}"


def _source_lines(section: type[BaseModel]) -> Iterator[str]:
    """One list entry. Its dash stands with the first key."""
    for number, (key, info) in enumerate(section.model_fields.items()):
        yield from _comment(remark("sources", key, info), "    ")
        yield f"{'  - ' if number == 0 else '    '}{key}: {scalar(info.default)}"


def _comment(text: str, indent: str) -> list[str]:
    return [f"{indent}# {line}" for line in textwrap.wrap(text, WIDTH - len(indent))]


def remark(section: str, key: str, info: FieldInfo) -> str:
    """Description, what is allowed, live or restart."""
    return f"{info.description} [{'; '.join([*allowed(key, info), reload_mark(section, key)])}]"


def allowed(key: str, info: FieldInfo) -> list[str]:
    """Unit, choices and bounds, as far as there are any."""
    units = [unit for suffix, unit in _UNITS.items() if key.endswith(suffix)]
    choices = [name for name in type_names(info.annotation) if name.startswith("one of ")]
    limits = bounds(info)
    return units + choices + ([limits] if limits else [])


def reload_mark(section: str, key: str) -> str:
    return "live" if is_live((section, key)) else "restart"


def scalar(value: Any) -> str:
    """A value as YAML of one line, the same in YAML 1.1 and 1.2."""
    if isinstance(value, str) and value.lower() not in _AMBIGUOUS and _is_plain(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _is_plain(text: str) -> bool:
    return text[:1].isalpha() and all(c.isalnum() or c in "-_./" for c in text) and text.isascii()


def reference() -> str:
    """The tables of ``docs/configuration.md``, in Markdown."""
    parts: list[str] = []
    for name, info in Config.model_fields.items():
        section = section_of(info.annotation)
        if section is None:
            continue
        heading = f"### {name}\n\n{_sentence(section)}\n\n"
        table = "| key | default | allowed | reload | meaning |\n|---|---|---|---|---|\n"
        rows = [
            f"| `{key}` | `{scalar(field.default)}` | {'; '.join(allowed(key, field))} "
            f"| {reload_mark(name, key)} | {str(field.description).replace('|', '/')} |"
            for key, field in section.model_fields.items()
        ]
        parts.append(heading + table + "\n".join(rows) + "\n")
        parts += [
            _inner_reference(name, key, field.annotation) for key, field in section.model_fields.items()
        ]
    return "\n".join(part for part in parts if part)


def _inner_reference(path: str, name: str, annotation: Any) -> str:
    """The tables of a section within a section, and of those within it; empty for a plain value."""
    section = section_of(annotation)
    if section is None:
        return ""
    path = f"{path}.{name}"
    table = (
        f"### {path}\n\n{_sentence(section)}\n\n| key | default | allowed | meaning |\n|---|---|---|---|\n"
    )
    rows = [
        f"| `{key}` | `{scalar(field.default)}` | {'; '.join(allowed(key, field))} "
        f"| {str(field.description).replace('|', '/')} |"
        for key, field in section.model_fields.items()
    ]
    inner = (_inner_reference(path, key, field.annotation) for key, field in section.model_fields.items())
    return "\n".join([table + "\n".join(rows) + "\n", *(part for part in inner if part)])


def json_schema() -> dict[str, Any]:
    """JSON Schema of the configuration file, for editors and other programs."""
    schema = Config.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "cosyd configuration",
    }
