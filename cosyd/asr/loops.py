"""Loops: a decoder that has lost the thread says the same words over and over."""

from __future__ import annotations

REPEATS = 3  # people do say things twice
LOOPED_TOKENS = (
    9  # ... and short things three times ("no, no, no"): one token is a loop from 9 on, two from 5
)
LONGEST_PERIOD = 32  # tokens; a longer phrase that returns is a refrain


def _repeats(tokens: list[int], period: int) -> int:
    """How many times the last ``period`` tokens stand at the end, one after the other."""
    phrase = tokens[-period:]
    count = 1
    while tokens[-period * (count + 1) : -period * count or None] == phrase:
        count += 1
    return count


def cut_loop(tokens: list[int]) -> int:
    """Cut a loop at the end of ``tokens`` down to one pass, in place; how many tokens went (0: no loop)."""
    for period in range(1, min(LONGEST_PERIOD, len(tokens) // REPEATS) + 1):
        count = _repeats(tokens, period)
        if count >= REPEATS and count * period >= LOOPED_TOKENS:
            surplus = (count - 1) * period
            del tokens[-surplus:]
            return surplus
    return 0
