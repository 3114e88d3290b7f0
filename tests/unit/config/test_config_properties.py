"""Whatever is in a file, loading gives a configuration or a ConfigError, nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cosyd.config.load import leaf_keys, load, named_files, value_of
from cosyd.config.paths import Locations
from cosyd.config.schema import Config
from cosyd.errors import ConfigError

KEYS = [*sorted({str(part) for key in leaf_keys(Config()) for part in key}), "x", "", "<<"]
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["mic", "tcp://0.0.0.0:1", "ipc://", "off", "tcp://[", "file", "pipe", "1e5", "0x1F"])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=20,
)
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def survives(file: Path, overrides: list[str] = [], environ: dict[str, str] = {}) -> None:  # noqa: B006
    try:
        loaded = load(named_files([file]), overrides, environ)
    except ConfigError as error:
        assert error.problems
        assert all(problem and "\n" not in problem for problem in error.problems)
    else:
        assert isinstance(loaded.config, Config)


@quick
@given(st.dictionaries(st.sampled_from(KEYS), values, max_size=6))
def test_any_structure(tmp_path: Path, tree: dict[str, Any]) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(yaml.safe_dump(tree, allow_unicode=True), encoding="utf-8", errors="surrogatepass")
    survives(file)


@quick
@given(st.text(max_size=200) | st.text("{}[]:-,&*!|>'\"%@ \n\tabc0.", max_size=60))
def test_any_text(tmp_path: Path, text: str) -> None:
    file = tmp_path / "f.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    survives(file)


@quick
@given(st.binary(max_size=100))
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "f.yaml"
    file.write_bytes(content)
    survives(file)


@quick
@given(
    st.lists(st.sampled_from([*KEYS, "0", "mic", "9" * 20]), max_size=5).map(".".join),
    st.text("{}[]:-,'\"0123456789.eabc ", max_size=10),
)
def test_any_override(tmp_path: Path, key: str, value: str) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("vad: {threshold: 0.5}\nsources: [{name: mic, channel_map: [0]}]\n")
    survives(file, [f"{key}={value}"], {f"COSYD_{key.upper().replace('.', '__')}": value})


@pytest.mark.parametrize("key", list(leaf_keys(Config())), ids=str)
@pytest.mark.parametrize("wrong", [{"a": 1}, [[1]], "\x07"], ids=["mapping", "lists", "control"])
def test_no_key_takes_nonsense_silently(key: tuple[str | int, ...], wrong: object) -> None:
    override = f"{'.'.join(map(str, key))}={json.dumps(wrong)}"
    free_text = wrong == "\x07" and isinstance(value_of(Config(), key), str | None)
    try:
        load(Locations(()), [override], {})
    except ConfigError as error:
        assert all(str(key[-1]) in problem for problem in error.problems)
    else:
        assert free_text
