"""Networks that are made once and kept: found again, made anew under another key, and what they replace."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosyd.engine.prepared import KEY_DIGITS, key_of, prepared

OLD, NEW = "0" * KEY_DIGITS, "1" * KEY_DIGITS
FAMILY = ("lean-growing", "lean-decoder")


def never() -> bytes:
    raise AssertionError("it is there already")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_made_once_and_found_again(tmp_path: Path) -> None:
    path = prepared(tmp_path / "onnx", "lean-decoder", NEW, lambda: b"network", FAMILY)
    assert path.read_bytes() == b"network"
    assert prepared(tmp_path / "onnx", "lean-decoder", NEW, never, FAMILY) == path


def test_of_the_published_content_is_the_key(tmp_path: Path) -> None:
    published = tmp_path / "decoder.ort"
    published.write_bytes(b"one")
    key = key_of([published])
    published.write_bytes(b"another")
    assert len(key) == KEY_DIGITS and key_of([published]) != key


def test_the_same_network_under_another_key_goes(tmp_path: Path) -> None:
    prepared(tmp_path, "lean-decoder", OLD, lambda: b"old", FAMILY)
    prepared(tmp_path, "lean-decoder", NEW, lambda: b"new", FAMILY)
    assert names(tmp_path) == {f"lean-decoder-{NEW}.onnx"}


def test_what_only_an_earlier_version_made_goes_and_what_belongs_beside_it_stays(tmp_path: Path) -> None:
    for name in ("lean-encoder", "lean-decoder"):  # under the same key: the published files did not change
        (tmp_path / f"{name}-{NEW}.onnx").write_bytes(b"earlier")
    prepared(tmp_path, "lean-growing", NEW, lambda: b"new", FAMILY)
    assert names(tmp_path) == {f"lean-decoder-{NEW}.onnx", f"lean-growing-{NEW}.onnx"}


@pytest.mark.parametrize(
    "name",
    [
        "lean.onnx",
        "lean-mine.onnx",
        f"lean-{OLD}.onnx",
        f"lean-mine-{OLD[1:]}.onnx",
        f"lean-mine-{OLD}.onnx.bak",
        f"lean-my-own-{OLD}.onnx",
        f"clean-mine-{OLD}.onnx",
        f"moonshine-encoder-{OLD}.onnx",
        "encoder_model.ort",
    ],
)
def test_what_cosyd_has_not_made_stays(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"not ours")
    prepared(tmp_path, "lean-decoder", NEW, lambda: b"new", FAMILY)
    assert names(tmp_path) == {name, f"lean-decoder-{NEW}.onnx"}


def test_who_has_a_file_open_reads_it_to_its_end(tmp_path: Path) -> None:
    """As a daemon of an earlier version that runs meanwhile."""
    old = prepared(tmp_path, "lean-decoder", OLD, lambda: b"old network", FAMILY)
    with old.open("rb") as reader:
        prepared(tmp_path, "lean-decoder", NEW, lambda: b"new network", FAMILY)
        assert not old.exists()
        assert reader.read() == b"old network"


def test_nothing_goes_where_making_fails(tmp_path: Path) -> None:
    old = prepared(tmp_path, "lean-decoder", OLD, lambda: b"old", FAMILY)

    def fail() -> bytes:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        prepared(tmp_path, "lean-decoder", NEW, fail, FAMILY)
    assert names(tmp_path) == {old.name}
