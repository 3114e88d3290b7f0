"""The shipped file, the documentation and the JSON Schema say what the schema says."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from cosyd.config.load import leaf_keys, load, named_files
from cosyd.config.render import defaults_yaml, json_schema, reference, scalar
from cosyd.config.schema import Config

REPOSITORY = Path(__file__).resolve().parents[3]
AGAIN = "make it again: cosyd config show --defaults > etc/cosyd.yaml"


def test_the_shipped_file_is_made_from_the_schema() -> None:
    assert (REPOSITORY / "etc/cosyd.yaml").read_text() == defaults_yaml(), AGAIN


def test_the_shipped_file_holds_every_key_with_its_default() -> None:
    loaded = load(named_files([REPOSITORY / "etc/cosyd.yaml"]), environ={})
    assert loaded.config == Config()
    assert all("cosyd.yaml:" in origin for origin in loaded.origins.values())
    assert len(loaded.origins) == len(list(leaf_keys(Config())))


def test_the_shipped_file_means_the_same_to_other_yaml_readers() -> None:
    plain = yaml.safe_load(defaults_yaml())
    assert Config.model_validate(plain) == Config()
    assert plain == json.loads(Config().model_dump_json())


def test_words_that_yaml_1_1_takes_for_truth_are_quoted() -> None:
    assert [scalar(v) for v in ("off", "No", "y", "a b", "", "1", "ok", None, True, 0.5, (1, 2))] == [
        '"off"', '"No"', '"y"', '"a b"', '""', '"1"', "ok", "null", "true", "0.5", "[1, 2]",
    ]  # fmt: skip


def test_the_documentation_has_the_tables_of_the_schema() -> None:
    text = (REPOSITORY / "docs/configuration.md").read_text()
    assert reference() in text, (
        "paste the output of cosyd.config.render.reference() into docs/configuration.md"
    )


def test_json_schema_lists_every_section() -> None:
    schema = json_schema()
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert set(schema["properties"]) == set(Config.model_fields)
    assert schema["additionalProperties"] is False
    json.dumps(schema)
