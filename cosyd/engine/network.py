"""A network as it is shipped, with what each engine needs to know of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cosyd.engine.golden import Golden
from cosyd.engine.profiles import Profile


@dataclass(frozen=True)
class Network:
    """``model``: for ONNX Runtime. ``plain``: makes what TensorRT compiles; None takes ``model`` as it is;
    both have the same inputs and outputs.

    ``profiles``: ranges of the free axes. ``golden``: how to tell that another precision is as good; without
    one only float32 is used. ``refusal``: why TensorRT is not for this network at all.
    """

    name: str
    model: Path | bytes = field(repr=False)
    plain: Callable[[], bytes] | None = field(default=None, repr=False)
    profiles: tuple[Profile, ...] = ()
    golden: Golden | None = field(default=None, repr=False)
    refusal: str = ""
    threads: int = 1

    def onnx(self) -> bytes:
        """What TensorRT compiles."""
        if self.plain is not None:
            return self.plain()
        return self.model.read_bytes() if isinstance(self.model, Path) else self.model
