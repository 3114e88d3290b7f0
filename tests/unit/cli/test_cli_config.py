"""``cosyd config``."""

from __future__ import annotations

import json
from pathlib import Path

from cosyd.config.render import defaults_yaml


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    return file


def test_check_names_the_files(cosyd, tmp_path: Path) -> None:
    file = written(tmp_path, "vad: {threshold: 0.5}\n")
    done = cosyd("config", "check", "-c", file)
    assert (done.code, done.out, done.err) == (0, f"fine: {file}\n", "")


def test_check_lists_every_fault(cosyd, tmp_path: Path) -> None:
    file = written(tmp_path, "vad:\n  treshold: 0.5\nasr:\n  threads: 0\n")
    done = cosyd("config", "check", "-c", file)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines() == [
        f"cosyd: {file}:2: vad.treshold: unknown key, did you mean 'threshold'?",
        f"cosyd: {file}:4: asr.threads: must be a whole number, 1 to 64, not 0",
    ]
    reply = json.loads(cosyd("config", "check", "-c", file, "--json").out)
    assert reply["ok"] is False
    assert len(reply["problems"]) == 2


def test_check_warns(cosyd, tmp_path: Path) -> None:
    file = written(tmp_path, "metrics: {enabled: true, host: 0.0.0.0}\n")
    done = cosyd("config", "check", "-c", file)
    assert done.code == 0
    assert (
        done.err
        == f"cosyd: warning: {file}:1: metrics.host: metrics can be read by anyone who reaches this address\n"
    )


def test_show_tells_values_and_origins(cosyd, tmp_path: Path) -> None:
    file = written(tmp_path, "sources:\n- name: door\n  channel_map: [1, 2]\n")
    done = cosyd("config", "show", "-c", file, "--set", "vad.threshold=0.5")
    rows = {line.split()[0]: line for line in done.out.splitlines()}
    assert rows["sources.door.channel_map"].endswith(f"{file}:3")
    assert rows["vad.threshold"].split() == ["vad.threshold", "0.5", "--set", "vad.threshold"]
    assert rows["asr.threads"].split() == ["asr.threads", "1", "default"]
    assert "\x1b" not in done.out
    as_json = json.loads(cosyd("config", "show", "-c", file, "--json").out)
    assert as_json["sources.door.channel_map"] == {"value": [1, 2], "origin": f"{file}:3"}


def test_show_defaults_is_the_shipped_file(cosyd) -> None:
    assert cosyd("config", "show", "--defaults").out == defaults_yaml()


def test_schema_is_json(cosyd) -> None:
    assert json.loads(cosyd("config", "schema").out)["type"] == "object"
