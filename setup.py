"""Builds the ring's C extension; everything else is declared in pyproject.toml."""

from setuptools import Extension, setup

RING = Extension(
    "cosyd.ring._ring",
    sources=["cosyd/ring/_ringmodule.c", "cosyd/ring/ring_core.c"],
    depends=["cosyd/ring/ring_core.h"],
    define_macros=[("Py_LIMITED_API", "0x030A0000")],
    extra_compile_args=["-std=c11", "-O2", "-Wall", "-Wextra", "-D_GNU_SOURCE"],
    py_limited_api=True,
)

setup(ext_modules=[RING], options={"bdist_wheel": {"py_limited_api": "cp310"}})
