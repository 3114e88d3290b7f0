"""An array's path as it is configured: which steps it has, in which order."""

from __future__ import annotations

from cosyd.array.echo import EchoCanceller
from cosyd.array.geometry import Geometry
from cosyd.array.matching import Matching
from cosyd.array.path import ArrayPath
from cosyd.array.step import ArrayStep
from cosyd.config.schema import ArrayConfig


def make_path(config: ArrayConfig, after: int = 0) -> ArrayPath:
    """``after``: samples by which VAD and denoiser trail the path's output."""
    behind: list[ArrayStep] = []  # on the one channel that the beam makes
    return ArrayPath(config, after, _before(config), behind)


def _before(config: ArrayConfig) -> list[ArrayStep]:
    """Steps on all channels, references included, before the beam."""
    geometry = Geometry.of(config)
    steps: list[ArrayStep] = []
    if config.gains_db or config.delays_us:
        steps.append(Matching(geometry.microphones, config.gains_db, config.delays_us))
    if config.echo == "auto" and geometry.references:
        steps.append(
            EchoCanceller(
                geometry.microphones,
                len(geometry.references),
                tail_ms=config.echo_tail_ms,
                longest_delay_ms=config.echo_delay_ms,
                suppress_db=config.echo_suppress_db,
            )
        )
    return steps
