"""Builds the C extensions and, for a package, the GPU kernels' machine code; the rest is in pyproject.toml.

COSYD_FATBINS says for which GPUs: `all`, or architectures such as `87 90`. Without it the kernels are
compiled where they first run, which takes some 20 s once.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

RING = Extension(
    "cosyd.ring._ring",
    sources=[
        "cosyd/ring/_ringmodule.c",
        "cosyd/ring/_ringreader.c",
        "cosyd/ring/_ringwriter.c",
        "cosyd/ring/ring_map.c",
        "cosyd/ring/ring_open.c",
        "cosyd/ring/ring_play.c",
        "cosyd/ring/ring_reader.c",
        "cosyd/ring/ring_system.c",
        "cosyd/ring/ring_writer.c",
    ],
    depends=["cosyd/ring/ring_core.h", "cosyd/ring/_ringmodule.h"],
    define_macros=[("Py_LIMITED_API", "0x030A0000"), ("_GNU_SOURCE", None)],
    extra_compile_args=["-std=c11", "-O2", "-Wall", "-Wextra"],
    py_limited_api=True,
)

BEAM = Extension(
    "cosyd.asr.decoders._beam",
    sources=[
        "cosyd/asr/decoders/_beammodule.c",
        "cosyd/asr/decoders/beam_common.c",
        "cosyd/asr/decoders/beam_ctc.c",
        "cosyd/asr/decoders/beam_transducer.c",
    ],
    depends=["cosyd/asr/decoders/beam_core.h"],
    define_macros=[("Py_LIMITED_API", "0x030A0000"), ("_GNU_SOURCE", None)],
    extra_compile_args=["-std=c11", "-O3", "-fno-math-errno", "-Wall", "-Wextra"],
    py_limited_api=True,
)


class BuildWithKernels(build_py):
    """Adds cosyd/gpu/fatbin to what is built, where COSYD_FATBINS asks for it."""

    def run(self) -> None:
        super().run()
        wanted = os.environ.get("COSYD_FATBINS", "")
        if wanted and not self.editable_mode:
            sys.path.insert(0, str(Path(__file__).parent))
            from cosyd.gpu import kernels

            chosen = kernels.ARCHITECTURES if wanted == "all" else tuple(map(int, wanted.split()))
            kernels.build_fatbins(Path(self.build_lib) / "cosyd" / "gpu" / "fatbin", chosen)


setup(
    ext_modules=[RING, BEAM],
    cmdclass={"build_py": BuildWithKernels},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
