"""Folders, endpoints, rings, configuration files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from cosyd.config.paths import (
    Locations,
    Paths,
    control_endpoint,
    default_locations,
    events_endpoint,
    ring_path,
)
from cosyd.config.schema import Config, ControlConfig, PathsConfig, PublishConfig
from cosyd.errors import CosydError

USER = {"HOME": "/home/u"}


def resolve(environ: dict[str, str], uid: int, **section: str) -> Paths:
    return Paths.resolve(PathsConfig(**section), environ=environ, uid=uid)


def test_root_has_the_systems_folders() -> None:
    assert resolve({"XDG_CACHE_HOME": "/x"}, 0) == Paths(
        models=Path("/var/lib/cosyd/models"),
        state=Path("/var/lib/cosyd"),
        cache=Path("/var/cache/cosyd"),
        runtime=Path("/run/cosyd"),
        keys=Path("/etc/cosyd/curve"),
    )


def test_users_have_the_xdg_folders() -> None:
    assert resolve({**USER, "XDG_RUNTIME_DIR": "/run/user/7", "XDG_CACHE_HOME": "not/absolute"}, 7) == Paths(
        models=Path("/home/u/.local/share/cosyd/models"),
        state=Path("/home/u/.local/state/cosyd"),
        cache=Path("/home/u/.cache/cosyd"),
        runtime=Path("/run/user/7/cosyd"),
        keys=Path("/home/u/.config/cosyd/curve"),
    )
    assert resolve({**USER, "XDG_DATA_HOME": "/d"}, 7).models == Path("/d/cosyd/models")


def test_without_a_runtime_folder_it_is_one_in_tmp() -> None:
    assert resolve(USER, 7).runtime == Path("/tmp/cosyd-7")


def test_systemd_decides_where_it_started_us() -> None:
    given = {
        "STATE_DIRECTORY": "/var/lib/a:/var/lib/b",
        "CACHE_DIRECTORY": "/var/cache/a",
        "RUNTIME_DIRECTORY": "/run/a",
        "CONFIGURATION_DIRECTORY": "/etc/a",
    }
    paths = resolve({**USER, **given}, 7)
    assert (paths.models, paths.state) == (Path("/var/lib/a/models"), Path("/var/lib/a"))
    assert (paths.cache, paths.runtime, paths.keys) == (
        Path("/var/cache/a"),
        Path("/run/a"),
        Path("/etc/a/curve"),
    )


def test_the_configuration_decides_above_all() -> None:
    paths = resolve({"STATE_DIRECTORY": "/s"}, 0, models="/m", runtime="~/r")
    assert (paths.models, paths.state, paths.runtime) == (Path("/m"), Path("/s"), Path.home() / "r")


def test_endpoints() -> None:
    paths = resolve({}, 0)
    assert events_endpoint(Config(), paths) == "ipc:///run/cosyd/events.sock"
    assert control_endpoint(Config(), paths) == "ipc:///run/cosyd/control.sock"
    config = Config(
        publish=PublishConfig(endpoint="tcp://127.0.0.1:1"),
        control=ControlConfig(endpoint="tcp://127.0.0.1:2"),
    )
    assert events_endpoint(config, paths) == "tcp://127.0.0.1:1"
    assert control_endpoint(config, paths) == "tcp://127.0.0.1:2"


def test_daemons_with_different_runtime_folders_share_no_ring() -> None:
    one, other = ring_path(resolve({}, 0), "mic"), ring_path(resolve({}, 0, runtime="/tmp/x"), "mic")
    assert one != other
    assert one == ring_path(resolve({}, 0), "mic")
    assert one.parent == Path("/dev/shm")
    assert one.name.startswith("cosyd-") and one.name.endswith("-mic.ring")
    assert len(one.name) == len("cosyd-12345678-mic.ring")


def test_folders_are_made_for_owner_and_group(tmp_path: Path) -> None:
    folders = {name: str(tmp_path / name) for name in ("state", "cache", "runtime")}
    paths = Paths.resolve(PathsConfig(**folders))
    paths.create()
    paths.create()
    modes = {stat.S_IMODE(folder.stat().st_mode) for folder in (paths.state, paths.cache, paths.runtime)}
    assert modes == {0o750}


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    paths = Paths.resolve(PathsConfig(state=str(tmp_path / "file" / "state")))
    with pytest.raises(CosydError, match=r"cannot make the folder .*/file/state: Not a directory"):
        paths.create()


def test_a_runtime_folder_in_tmp_must_be_ours(tmp_path: Path) -> None:
    """Anyone can make a link in /tmp before us and so choose where our sockets lie."""
    link = Path(f"/tmp/cosyd-test-{os.getpid()}")
    link.symlink_to(tmp_path)
    try:
        folders = {name: str(tmp_path / name) for name in ("state", "cache")}
        paths = Paths.resolve(PathsConfig(**folders, runtime=str(link)))
        with pytest.raises(CosydError, match="belongs to somebody else"):
            paths.create()
    finally:
        link.unlink()


def test_configuration_files() -> None:
    assert default_locations(USER, 0).entries == (Path("/etc/cosyd/cosyd.yaml"), Path("/etc/cosyd/conf.d"))
    assert default_locations(USER, 7).entries[-1] == Path("/home/u/.config/cosyd/cosyd.yaml")


def test_optional_files_may_be_missing_and_named_ones_are_kept(tmp_path: Path) -> None:
    assert Locations((tmp_path / "x.yaml",)).files() == []
    assert Locations((tmp_path / "x.yaml",), required=True).files() == [tmp_path / "x.yaml"]
