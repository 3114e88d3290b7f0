"""An array's path as it is configured: which steps it has, in which order."""

from __future__ import annotations

from cosyd.array.path import ArrayPath
from cosyd.array.step import ArrayStep
from cosyd.config.schema import ArrayConfig


def make_path(config: ArrayConfig, after: int = 0) -> ArrayPath:
    """``after``: samples by which VAD and denoiser trail the path's output."""
    before: list[ArrayStep] = []  # on all channels, references included, before the beam
    behind: list[ArrayStep] = []  # on the one channel that the beam makes
    return ArrayPath(config, after, before, behind)
