"""JSON has no NaN or infinity: in a field of a message they are replaced, or a fault of the caller."""

from __future__ import annotations

import math

import msgspec

from cosyd.spec import FLOOR_DB


def finite_or(value: float | None, otherwise: float | None) -> float | None:
    """``value``, or ``otherwise`` for what is no finite number."""
    return value if value is not None and math.isfinite(value) else otherwise


def decibel(value: float) -> float:
    """dB, at least ``FLOOR_DB``; NaN is that, too."""
    return max(value, FLOOR_DB) if math.isfinite(value) else FLOOR_DB


def replace(struct: msgspec.Struct, field: str, value: object) -> None:
    """Set a field of a frozen struct while it is being made."""
    msgspec.structs.force_setattr(struct, field, value)


def require_finite(struct: msgspec.Struct, *fields: str) -> None:
    """Raise ValueError for a field that is no finite number."""
    for field in fields:
        value = getattr(struct, field)
        if not math.isfinite(value):
            raise ValueError(f"{type(struct).__name__}.{field} must be a finite number, not {value}")
