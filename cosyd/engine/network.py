"""A network as it is shipped, with what each engine needs to know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cosyd.engine.golden import Golden
from cosyd.engine.profiles import Profile
from cosyd.errors import ModelMissing

USUAL_STREAMS = 8


@dataclass(frozen=True)
class Network:
    """``model``: for ONNX Runtime. ``plain``: makes what TensorRT compiles; None takes ``model`` as it is;
    both have the same inputs and outputs.

    ``profiles``: ranges of the free axes. ``golden``: how to tell that another precision is as good; without
    one only float32 is used. ``refusal``: why TensorRT is not for this network at all. ``fill``: what inputs
    are filled with to warm up, where that is not ones.
    """

    name: str
    model: Path | bytes = field(repr=False)
    plain: Callable[[], bytes] | None = field(default=None, repr=False)
    profiles: tuple[Profile, ...] = ()
    golden: Golden | None = field(default=None, repr=False)
    refusal: str = ""
    threads: int = 1
    fill: Mapping[str, int] = field(default_factory=dict)

    def onnx(self) -> bytes:
        """What TensorRT compiles. Raises ModelDamaged, ModelMissing."""
        if self.plain is not None:
            return self.plain()
        return self.model.read_bytes() if isinstance(self.model, Path) else self.model


def for_streams(path: Path, most: int, *, name: str | None = None, golden: Golden | None = None) -> Network:
    """A network that takes one chunk of each of up to ``most`` streams, its states as inputs: every free axis
    of an input is the number of streams. Raises ModelMissing, ModelDamaged."""
    if not path.is_file():
        raise ModelMissing(f"{path}: not there")
    from cosyd.engine.compile import describe

    inputs, _, _ = describe(path.read_bytes())
    axes = {axis for spec in inputs for axis in spec.symbols}
    profile = Profile.of({axis: (1, min(USUAL_STREAMS, most), most) for axis in axes})
    label = name or path.stem
    return Network(label, path, lambda: plain_of(path), (profile,) if axes else (), golden)


def plain_of(path: Path) -> bytes:
    """In the form that TensorRT takes."""
    from cosyd.engine.rewrite import plain_network

    return plain_network(path)
