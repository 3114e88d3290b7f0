"""What each launch of a hop costs, as the kernels' headers count it, and its share of what the chip reaches.

For the benchmark's input, 48 kHz S16 mono, Kaldi features. Weights are left out of the bytes: all rows read
the same ones, out of the second-level cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cosyd.spec import FRAME

FRAMES = 3 * FRAME.hop  # of a hop at 48 kHz
TAPS = 244
BINS, UNITS, FEATURES = FRAME.window // 2 + 1, 128, FRAME.window // 2
FRAMES_A_HOP = FRAME.hop / 160  # of features


@dataclass(frozen=True)
class Cost:
    """Of one row, a stream's hop."""

    flop: float
    bytes: float

    def rates(self, rows: int, us: float) -> tuple[float, float]:
        """TFLOP/s and TB/s when ``rows`` take ``us``."""
        return rows * self.flop / us / 1e6, rows * self.bytes / us / 1e6


def dense(k: int, columns: int, out: int) -> Cost:
    """A matrix product: ``k`` values in, ``columns`` products, ``out`` values kept."""
    return Cost(2 * k * columns, 4 * (k + out))


def lstm(k: int) -> Cost:
    """``k`` inputs and the hidden state; the cell is read and written, the hidden state written twice."""
    return dense(k + UNITS, 4 * UNITS, 4 * UNITS)


COSTS: tuple[Cost, ...] = (  # in the order of their launches
    Cost(5 * FRAMES, 2 * FRAMES),  # stats
    Cost(2 * FRAME.hop * TAPS, 2 * FRAMES + 4 * (2 * TAPS + FRAME.hop)),  # resample
    Cost(830_000 / 4, 3_400 / 4),  # vad, every fourth hop
    Cost(15_000, 4 * (FRAME.window + 3 * BINS)),  # dtln_analysis
    lstm(BINS),
    lstm(UNITS),
    dense(UNITS, BINS, 4 * BINS),  # mask; the spectrum is read and written
    Cost(15_000, 4 * (2 * BINS + FRAME.window)),  # dtln_synthesis
    dense(FRAME.window, FEATURES, FEATURES),  # basis
    Cost(8 * FEATURES, 8 * FEATURES),  # dtln_normalise
    lstm(FEATURES),
    lstm(UNITS),
    dense(UNITS, FEATURES, 2 * FEATURES),  # mask on the features
    dense(FEATURES, FRAME.window, 2 * FRAME.window + FRAME.hop),  # inverse basis, overlap-add
    Cost(18_000 * FRAMES_A_HOP, 4 * FRAMES_A_HOP * (400 + 80)),  # fbank_kaldi
)


def shares(
    times_us: Mapping[str, float], rows: int, ceilings: Mapping[str, float]
) -> list[tuple[str, float, float, float, float, float]]:
    """(kernel, µs, TFLOP/s, its share of the peak in %, TB/s, its share in %) for each launch.

    ``ceilings``: ``fp32_tflops``, ``fp16_tflops`` of a large product and ``device_copy_tb_s``, as measured.
    The 16-bit products are held against the 16-bit one, everything else against FP32.
    """
    table = []
    for (name, us), cost in zip(times_us.items(), COSTS, strict=True):
        tflops, tb = cost.rates(rows, us)
        peak = ceilings["fp16_tflops" if "f16" in name else "fp32_tflops"]
        table.append((name, us, tflops, 100 * tflops / peak, tb, 100 * tb / ceilings["device_copy_tb_s"]))
    return table
