"""Key files: made, read, and each fault named in one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cosyd.errors import PublishError
from cosyd.publish.curve import Admission, ClientKeys, create_keys, load_pair, load_public, server_keys


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "curve"


def test_made_keys_are_read(folder: Path) -> None:
    public, secret = create_keys(folder, "server")
    assert (public, secret) == (folder / "server.key", folder / "server.key_secret")
    assert secret.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert server_keys(folder).public == load_public(public)
    client_public, client_secret = create_keys(folder, "kitchen")
    assert client_public == folder / "clients" / "kitchen.key"
    keys = ClientKeys.load(public, client_secret)
    assert keys.server == load_public(public)
    assert keys.own.public == load_public(client_public)
    assert keys.own.secret.decode() not in repr(keys)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_keys_that_root_makes_belong_to_the_service(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    os.chown(folder, 12_345, 12_345)
    for name in ("server", "kitchen"):
        for path in create_keys(folder, name):
            assert (path.stat().st_uid, path.stat().st_gid) == (12_345, 12_345)
    assert (folder / "clients").stat().st_uid == 12_345


def test_nothing_is_overwritten(folder: Path) -> None:
    create_keys(folder, "server")
    with pytest.raises(PublishError, match="exists already"):
        create_keys(folder, "server")


@pytest.mark.parametrize("name", ["", "../evil", "a/b", ".hidden", "a b", "x" * 65])
def test_names_stay_in_the_folder(folder: Path, name: str) -> None:
    with pytest.raises(PublishError, match="key name"):
        create_keys(folder, name)
    assert not folder.exists()


def test_no_server_key(folder: Path) -> None:
    with pytest.raises(PublishError, match=r"no .*server.key_secret; make one"):
        server_keys(folder)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_secret_that_others_can_read_is_refused(folder: Path, mode: int) -> None:
    _, secret = create_keys(folder, "server")
    secret.chmod(mode)
    with pytest.raises(PublishError, match=rf"mode {mode:04o}\); chmod 600"):
        server_keys(folder)


def test_the_public_file_in_place_of_the_secret(folder: Path) -> None:
    public, _ = create_keys(folder, "server")
    with pytest.raises(PublishError, match="holds no secret key"):
        load_pair(public)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "holds no CURVE key"),
        ("nonsense", "holds no CURVE key"),
        ('curve\n    public-key = "short"\n', "damaged"),
        ('curve\n    public-key = "' + "~" * 40 + '"\n', "damaged"),
    ],
)
def test_damaged_files(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "x.key"
    path.write_text(text)
    with pytest.raises(PublishError, match=complaint) as caught:
        load_public(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PublishError, match="cannot read the key"):
        load_public(tmp_path / "none.key")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.key"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PublishError, match=r"x\.key"):
        load_public(path)


def test_admission_reads_the_folder_anew(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    admission = Admission(folder / "clients")
    kitchen, _ = create_keys(folder, "kitchen")
    key = load_public(kitchen)
    assert admission.callback("cosyd", key)
    kitchen.unlink()
    assert not admission.callback("cosyd", key)
    assert "refused a client" in caplog.text


def test_one_damaged_client_does_not_shut_out_the_others(folder: Path) -> None:
    kitchen, _ = create_keys(folder, "kitchen")
    (folder / "clients" / "broken.key").write_text("?")
    assert Admission(folder / "clients").callback("cosyd", load_public(kitchen))
