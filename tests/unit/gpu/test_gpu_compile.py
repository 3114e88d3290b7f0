"""Every kernel compiles for every architecture that cosyd ships. Needs nvcc, no GPU.

All files are one translation unit here, and the optimiser is off: this is about what the language and the
architecture allow, and it takes two seconds instead of twelve.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cosyd.gpu import kernels

KERNELS = (
    *("clear_slots", "resample", "copy_raw", "stats", "vad_1", "vad_8", "fbank_kaldi", "fbank_whisper"),
    *("dtln_analysis", "dtln_synthesis", "dtln_normalise", "dense_gemv_1", "dense_gemv_8"),
    *("srp_phat", "beam_noise", "beam_weights", "beam_apply", "move_rows"),
    *("dense_f32_small", "dense_f32_large", "dense_f16_small", "dense_f16_large"),
)
FILES = (*kernels.NAMES, *kernels.AS_PTX)
COPY_ONLY = ("slots", "rows")  # nothing is computed


def everything(folder: Path) -> str:
    """One source of all kernel files, each in a namespace of its own."""
    headers = "".join(f'#include "{path}"\n' for path in sorted(folder.glob("*.cuh")))
    files = (f'namespace {name}_file {{\n#include "{folder / name}.cu"\n}}\n' for name in FILES)
    return headers + "".join(files)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("arch", kernels.ARCHITECTURES)
def test_every_kernel_compiles(arch: int, tmp_path: Path) -> None:
    nvcc = kernels.find_nvcc()
    if nvcc is None:
        pytest.skip("no nvcc on this machine: kernels not compiled")
    source, output = tmp_path / "all.cu", tmp_path / "all.cubin"
    source.write_text(everything(kernels.source_folder()))
    command = kernels.nvcc_command(
        nvcc, "slots", arch, output, ("-Xcicc", "-O0", "-Xptxas", "-O0", "-Werror", "all-warnings")
    )
    done = subprocess.run([*command[:-1], str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = output.read_bytes()
    missing = [name for name in KERNELS if f".text.{name}\0".encode() not in names]
    assert not missing
    assert (b".text.dense_bf16_large\0" in names) == (arch >= 80)


def test_every_source_file_is_in_the_list() -> None:
    assert sorted(FILES) == sorted(path.stem for path in kernels.source_folder().glob("*.cu"))


def test_architectures_cover_turing_to_blackwell_and_orin() -> None:
    assert kernels.ARCHITECTURES[0] == 75
    assert kernels.ARCHITECTURES[-1] == 120
    assert {80, 86, 87, 89, 90} < set(kernels.ARCHITECTURES)


def test_headers_state_what_they_must() -> None:
    """Each operation says its mathematics, layout, cost and tolerance, and how it is launched."""
    for name in FILES:
        text = (kernels.source_folder() / f"{name}.cu").read_text()
        head = text[: text.index("__global__")]
        for word in (
            ("LAYOUT", "Bytes")
            if name in COPY_ONLY
            else ("MATHEMATICS", "LAYOUT", "FLOP", "Bytes", "TOLERANCE")
        ):
            assert word in head, f"{name}.cu: {word}"
