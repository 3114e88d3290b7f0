"""Ranges of sizes that a network is compiled for, and padding of lengths to a few sizes.

A *profile* gives each free axis its smallest, usual and largest length. Several profiles, *buckets*, let the
compiler choose kernels for short and long inputs apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.engine.tensors import Misuse, Sizes, TensorSpec
from cosyd.errors import ModelError

Array = NDArray[Any]

BUCKETS = (200, 256, 512, 768, 1_500)  # mel frames: 2 s to a 15 s utterance at 100 a second


@dataclass(frozen=True)
class Profile:
    """By axis: smallest, usual and largest length, in that order."""

    axes: tuple[tuple[str, tuple[int, int, int]], ...]

    @classmethod
    def of(cls, axes: Mapping[str, tuple[int, int, int]]) -> Profile:
        for axis, (least, usual, most) in axes.items():
            if not 0 <= least <= usual <= most:
                raise ModelError(f"profile of {axis}: {least}, {usual}, {most} must rise")
        return cls(tuple(sorted(axes.items())))

    def admits(self, sizes: Sizes) -> bool:
        return all(least <= sizes.get(axis, least) <= most for axis, (least, _, most) in self.axes)

    def shapes(self, spec: TensorSpec) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Smallest, usual and largest shape of a tensor. Raises ModelError for an axis without a range."""
        ranges = dict(self.axes)
        missing = [axis for axis in spec.symbols if axis not in ranges]
        if missing:
            raise ModelError(f"{spec.name} {spec}: the profile gives no range for {', '.join(missing)}")
        least, usual, most = (spec.sized({axis: ranges[axis][i] for axis in spec.symbols}) for i in range(3))
        return least, usual, most

    def __str__(self) -> str:
        return " ".join(f"{axis}={least}..{usual}..{most}" for axis, (least, usual, most) in self.axes)


def bucketed(
    axis: str, buckets: Sequence[int], others: Mapping[str, tuple[int, int, int]]
) -> tuple[Profile, ...]:
    """One profile for each bucket: over the last one, up to its own length, which is also the usual one."""
    edges = [0, *sorted(buckets)]
    return tuple(Profile.of({**others, axis: (before + 1, upto, upto)}) for before, upto in pairwise(edges))


def choose_profile(network: str, profiles: Sequence[Profile], sizes: Sizes) -> int:
    """The first profile that admits these sizes: list the small ones first. Raises InferenceError."""
    for index, profile in enumerate(profiles):
        if profile.admits(sizes):
            return index
    wanted = " ".join(f"{axis}={length}" for axis, length in sorted(sizes.items()))
    raise Misuse(f"{network}: compiled for {'; '.join(map(str, profiles))}, not for {wanted}")


def bucket_of(length: int, buckets: Iterable[int] = BUCKETS) -> int:
    """The smallest bucket that holds the length. Raises InferenceError when none does."""
    fits = [bucket for bucket in buckets if bucket >= length]
    if not fits:
        raise Misuse(f"length {length} is over the largest bucket, {max(buckets)}")
    return min(fits)


def pad_to_bucket(x: Array, axis: int, buckets: Iterable[int] = BUCKETS) -> Array:
    """Zeros behind the data along an axis, up to its bucket; slice the result back to what went in."""
    missing = bucket_of(x.shape[axis], tuple(buckets)) - x.shape[axis]
    widths = [(0, missing if index == axis % x.ndim else 0) for index in range(x.ndim)]
    return np.pad(x, widths) if missing else x
