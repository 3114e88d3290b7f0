"""What goes into a network and comes out of it: names, types, shapes with symbolic axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.errors import InferenceError

Array = NDArray[Any]


class Misuse(InferenceError):
    """The caller's mistake, not the engine's: names, types, sizes. Doing it again does not help."""


Axis = int | str
Sizes = Mapping[str, int]


@dataclass(frozen=True)
class TensorSpec:
    """One input or output. An axis is its length, or the name under which its length is given at run time.

    Axes that a file leaves without a name are called ``TENSOR.INDEX``, so every free axis has one.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[Axis, ...]

    @classmethod
    def of(cls, name: str, dtype: Any, shape: Sequence[Axis | None]) -> TensorSpec:
        """As libraries list them: an unknown length is None, negative or an empty name."""
        axes = tuple(
            f"{name}.{index}" if axis in (None, "") or (isinstance(axis, int) and axis < 0) else axis
            for index, axis in enumerate(shape)
        )
        return cls(name, np.dtype(dtype), axes)

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        return tuple(axis for axis in self.shape if isinstance(axis, str))

    def sized(self, sizes: Sizes) -> tuple[int, ...]:
        """The shape with every free axis filled in. Raises InferenceError for one that has no size."""
        try:
            return tuple([sizes[axis] if isinstance(axis, str) else axis for axis in self.shape])
        except KeyError:
            missing = ", ".join(axis for axis in self.symbols if axis not in sizes)
            raise Misuse(f"{self.name} {self}: no size given for {missing}") from None

    def nbytes(self, sizes: Sizes) -> int:
        return math.prod(self.sized(sizes)) * self.dtype.itemsize

    def accepts(self, dtype: np.dtype[Any], shape: Sequence[int]) -> bool:
        """Same type, same number of axes, and equal lengths where they are fixed."""
        return (
            self.dtype == dtype
            and len(shape) == len(self.shape)
            and all(isinstance(own, str) or own == got for own, got in zip(self.shape, shape, strict=True))
        )

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def check_feeds(network: str, specs: Iterable[TensorSpec], feeds: Mapping[str, Array]) -> None:
    """Raises InferenceError, in one line, for names that are missing or unknown and types that differ."""
    known = {spec.name: spec for spec in specs}
    missing, strange = sorted(known.keys() - feeds.keys()), sorted(feeds.keys() - known.keys())
    if missing or strange:
        faults = [f"missing {', '.join(missing)}"] * bool(missing)
        faults += [f"unknown {', '.join(strange)}"] * bool(strange)
        raise Misuse(f"{network}: inputs {'; '.join(faults)}; it takes {', '.join(known)}")
    for name, value in feeds.items():
        if not known[name].accepts(value.dtype, value.shape):
            got = TensorSpec(name, value.dtype, value.shape)
            raise Misuse(f"{network}: {name} is {got}, must be {known[name]}")


def sizes_of(
    network: str, specs: Iterable[TensorSpec], shapes: Mapping[str, Sequence[int]]
) -> dict[str, int]:
    """Lengths of the free axes in these shapes. Raises InferenceError where one name has two lengths."""
    sizes: dict[str, int] = {}
    for spec in specs:
        for axis, length in zip(spec.shape, shapes[spec.name], strict=True):
            if isinstance(axis, str) and sizes.setdefault(axis, length) != length:
                raise Misuse(f"{network}: {spec.name}: {axis} is {length} here, {sizes[axis]} elsewhere")
    return sizes
