"""Builds the ring's C extension; everything else is declared in pyproject.toml."""

from setuptools import Extension, setup

RING = Extension(
    "cosyd.ring._ring",
    sources=[
        "cosyd/ring/_ringmodule.c",
        "cosyd/ring/ring_map.c",
        "cosyd/ring/ring_open.c",
        "cosyd/ring/ring_reader.c",
        "cosyd/ring/ring_system.c",
        "cosyd/ring/ring_writer.c",
    ],
    depends=["cosyd/ring/ring_core.h"],
    define_macros=[("Py_LIMITED_API", "0x030A0000"), ("_GNU_SOURCE", None)],
    extra_compile_args=["-std=c11", "-O2", "-Wall", "-Wextra"],
    py_limited_api=True,
)

setup(ext_modules=[RING], options={"bdist_wheel": {"py_limited_api": "cp310"}})
