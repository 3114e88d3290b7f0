"""Where machine code comes from: the cache, a compiler, and what is said when there is neither."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cosyd.errors import GpuError
from cosyd.gpu import kernels
from cosyd.runtime.supervision import Patience

EVERY_S = kernels.ALIVE_EVERY_S


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for nvcc that writes its arguments to the output and counts its calls."""
    path = tmp_path / "home" / "bin" / "nvcc"
    path.parent.mkdir(parents=True)
    path.write_text(
        "#!/bin/sh\n"
        f"echo called >> {tmp_path}/calls\n"
        'args="$*"; while [ "$1" != "-o" ]; do shift; done; echo "$args" > "$2"\n'
    )
    path.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    return tmp_path / "calls"


def test_compiled_once_then_served_from_the_cache(compiler: Path, tmp_path: Path) -> None:
    first = kernels.machine_code("slots", 90, tmp_path / "cache")
    assert b"-arch=sm_90" in first and b"slots.cu" in first
    assert kernels.machine_code("slots", 90, tmp_path / "cache") == first
    assert compiler.read_text().count("called") == 1
    kernels.machine_code("slots", 75, tmp_path / "cache")
    assert compiler.read_text().count("called") == 2
    assert not [path for path in (tmp_path / "cache").iterdir() if path.suffix == ".part"]


def test_a_changed_header_changes_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    for path in kernels.source_folder().glob("*.cu*"):
        (folder / path.name).write_bytes(path.read_bytes())
    before = kernels.source_key("vad")
    monkeypatch.setattr(kernels, "source_folder", lambda: folder)
    assert kernels.source_key("vad") == before
    (folder / "common.cuh").write_text("// other\n")
    assert kernels.source_key("vad") != before


@pytest.mark.usefixtures("compiler")
def test_an_empty_cache_file_is_not_served(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / f"slots-{kernels.source_key('slots')[:16]}-sm_90.cubin").touch()
    assert kernels.machine_code("slots", 90, cache)


def test_a_compiler_error_is_one_line_with_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bin" / "nvcc"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\necho 'warning: x' >&2; echo 'vad.cu(3): error: no such thing' >&2; exit 2\n")
    path.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(GpuError, match=r"vad\.cu for sm_90: vad\.cu\(3\): error: no such thing$"):
        kernels.machine_code("vad", 90, tmp_path / "cache")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.usefixtures("compiler")
def test_a_read_only_cache_does_not_stop_the_start(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o500)
    assert kernels.machine_code("slots", 90, cache)


@pytest.mark.usefixtures("compiler")
def test_a_cache_that_is_a_file_does_not_stop_the_start(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.write_text("not a folder")
    assert kernels.machine_code("slots", 90, cache)


def test_without_any_compiler_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "find_nvcc", lambda: None)
    monkeypatch.setattr(kernels.importlib, "import_module", _absent)
    with pytest.raises(GpuError, match="nvcc or cuda-bindings"):
        kernels.machine_code("slots", 90, tmp_path)


def _absent(name: str) -> None:
    raise ImportError(name)


def test_the_fatbin_command_names_every_architecture_and_portable_code(tmp_path: Path) -> None:
    command = " ".join(kernels.fatbin_command(Path("nvcc"), "vad", tmp_path / "x"))
    for arch in kernels.ARCHITECTURES:
        assert f"code=sm_{arch}" in command
    assert "code=compute_120" in command


@pytest.mark.usefixtures("compiler")
def test_packaged_machine_code_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = kernels.build_fatbins(tmp_path / "fatbin")
    assert [path.name.split("-")[0] for path in made] == list(kernels.NAMES)
    monkeypatch.setattr(kernels, "_PACKAGED", tmp_path / "fatbin")
    monkeypatch.setattr(kernels, "find_nvcc", lambda: None)
    code = kernels.machine_code("vad", 87, tmp_path / "cache")
    assert b"-fatbin" in code and b"compute_75,code=sm_75" in code


@pytest.mark.usefixtures("compiler")
def test_a_fatbin_for_other_gpus_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = kernels.build_fatbins(tmp_path / "fatbin", (86, 87))
    assert all(path.name.endswith("-sm_86.sm_87.fatbin") for path in made)
    monkeypatch.setattr(kernels, "_PACKAGED", tmp_path / "fatbin")
    cache = tmp_path / "cache"
    assert b"-fatbin" in kernels.machine_code("vad", 87, cache)
    assert kernels.origin(87, cache) == "in the package"
    assert b"-arch=sm_90" in kernels.machine_code("vad", 90, cache)
    assert kernels.origin(90, cache).startswith("compiled by ")


def test_all_that_is_missing_is_compiled_at_once_and_said(
    compiler: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "cosyd.gpu")
    cache = tmp_path / "cache"
    kernels.machine_code("vad", 90, cache)
    missing = [name for name in kernels.NAMES if name != "vad"]
    assert kernels.prepare(90, cache) == missing
    assert compiler.read_text().count("called") == len(kernels.NAMES)
    first, last = (record.getMessage() for record in caplog.records)
    assert first.startswith(f"compiling {len(missing)} kernel files for sm_90 with ") and "once" in first
    assert f"kept in {cache}" in last
    assert kernels.prepare(90, cache) == []
    assert kernels.origin(90, cache) == f"compiled before, in {cache}"
    assert len(caplog.records) == 2


def test_who_waits_hears_that_it_goes_on(
    compiler: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that compiles on a small board is not taken for one that hangs."""
    nvcc = tmp_path / "home" / "bin" / "nvcc"
    nvcc.write_text(nvcc.read_text().replace("#!/bin/sh\n", "#!/bin/sh\nsleep 0.2\n"))
    monkeypatch.setattr(kernels, "ALIVE_EVERY_S", 0.02)
    told: list[int] = []
    kernels.prepare(90, tmp_path / "cache", lambda: told.append(1))
    assert len(told) >= 3
    assert Patience().start_s > 2 * EVERY_S


def test_what_was_compiled_before_an_error_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_some(name: str, arch: int) -> bytes:
        if name == "vad":
            raise GpuError("nvcc failed on vad.cu")
        return b"code"

    monkeypatch.setattr(kernels, "_compile", compile_some)
    with pytest.raises(GpuError, match=r"vad\.cu"):
        kernels.prepare(90, tmp_path)
    assert {path.name.split("-")[0] for path in tmp_path.iterdir()} == set(kernels.NAMES) - {"vad"}


@pytest.mark.usefixtures("compiler")
def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "cosyd.gpu")
    cache = tmp_path / "cache"
    cache.write_text("not a folder")
    kernels.prepare(90, cache)
    assert "cannot be written: the next start compiles again" in caplog.records[-1].getMessage()


def test_without_code_and_compiler_there_is_no_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "find_nvcc", lambda: None)
    monkeypatch.setattr(kernels, "has_nvrtc", lambda: False)
    assert kernels.origin(90, tmp_path) == ""


@pytest.mark.usefixtures("compiler")
def test_a_package_has_machine_code_where_it_is_asked_for(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    for wanted, count in (("87 90", len(kernels.NAMES)), ("", 0)):
        built = tmp_path / f"built{count}"
        subprocess.run(
            [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(built)],
            cwd=root, env={**os.environ, "COSYD_FATBINS": wanted}, check=True, capture_output=True,
        )  # fmt: skip
        assert len(list((built / "cosyd/gpu/fatbin").glob("*-sm_87.sm_90.fatbin"))) == count
        assert (built / "cosyd/gpu/cuda/dtln.cu").is_file()


def test_the_package_ships_the_sources() -> None:
    assert kernels.source_folder().resolve() == Path(__file__).parents[3] / "kernels"
    declared = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert "gpu/cuda/*.cu" in declared and "gpu/cuda/*.cuh" in declared
