"""The ring core under the sanitizers: ring_hammer.c, built with each of them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CORE = REPOSITORY / "cosyd" / "ring"
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-g", "-O1", "-Wall", "-Wextra", "-pthread", f"-I{CORE}"]
SANITIZERS = {
    "address,undefined": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "thread": ["-fsanitize=thread"],
}
FRAMES = {"address,undefined": 10_000_000, "thread": 2_000_000}  # ThreadSanitizer costs a factor of ten


def run(command: list[str], seconds: float = 100) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TSAN_OPTIONS": "halt_on_error=1"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, env=environment, check=False
    )


def fixed_addresses() -> list[str]:
    """ThreadSanitizer of older compilers cannot live with all the randomness of newer kernels."""
    return ["setarch", "-R"] if shutil.which("setarch") else []


def build(sources: list[Path], flags: list[str], to: Path) -> str | None:
    """Builds with the first compiler whose result runs at all; None if there is none."""
    trivial = to.with_suffix(".c")
    trivial.write_text("int main(void) { return 0; }\n")
    for compiler in ("gcc", "clang"):
        if shutil.which(compiler) is None:
            continue
        silent = ["-Wno-tsan"] if compiler == "gcc" else []  # fences: every racing word is atomic by itself
        if run([compiler, *FLAGS, *flags, str(trivial), "-o", str(to)]).returncode != 0:
            continue
        if run([*fixed_addresses(), str(to)]).returncode != 0:
            continue
        made = run([compiler, *FLAGS, "-Werror", *silent, *flags, *map(str, sources), "-o", str(to)])
        assert made.returncode == 0, made.stderr
        return compiler
    return None


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_core_under_sanitizer(sanitizer: str, tmp_path: Path) -> None:
    binary = tmp_path / "ring_hammer"
    sources = [REPOSITORY / "tests" / "native" / "ring_hammer.c", *sorted(CORE.glob("ring_*.c"))]
    if build(sources, SANITIZERS[sanitizer], binary) is None:
        pytest.skip(f"no compiler here builds and runs with -fsanitize={sanitizer}")
    ring = Path(f"/dev/shm/cosyd-test-native-{os.getpid()}")
    try:
        done = run([*fixed_addresses(), str(binary), str(ring), str(FRAMES[sanitizer])])
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.startswith("written ")
        assert not ring.exists()
    finally:
        ring.unlink(missing_ok=True)


def test_core_is_plain_c11(tmp_path: Path) -> None:
    """No Python.h in the core, and no lock of any kind."""
    for source in CORE.glob("ring_*.[ch]"):
        text = source.read_text()
        assert "Python.h" not in text, source
        assert "pthread" not in text, source
