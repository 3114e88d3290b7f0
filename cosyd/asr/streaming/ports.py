"""The inputs and outputs of an exported encoder, taken one after the other as sherpa-onnx does.

Exports of one family agree on the order and not always on the names, so tensors are found by position and
checked by shape.
"""

from __future__ import annotations

from collections.abc import Sequence

from cosyd.asr.streaming.spec import StateSpec
from cosyd.engine.tensors import TensorSpec
from cosyd.errors import ModelDamaged


class Ports:
    """Of the network ``file`` (for messages). Each tensor is taken once."""

    def __init__(self, file: str, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
        self.file = file
        self._inputs = list(inputs)
        self._outputs = list(outputs)

    def take_input(self, what: str, shape: Sequence[int | None]) -> TensorSpec:
        """The next input, which must fit ``shape`` (None: any length). Raises ModelDamaged."""
        return self._take(self._inputs, "input", what, shape)

    def take_output(self, what: str, shape: Sequence[int | None]) -> TensorSpec:
        return self._take(self._outputs, "output", what, shape)

    def named_input(self, name: str) -> TensorSpec | None:
        """An input by its name, out of turn; None when there is none."""
        return self._named(self._inputs, name)

    def named_output(self, name: str) -> TensorSpec | None:
        return self._named(self._outputs, name)

    def state(self, what: str, shape: Sequence[int], axis: int | None) -> StateSpec:
        """The next input and output as a state of this shape, whose batch axis has length 1 here."""
        free = [None if index == axis else length for index, length in enumerate(shape)]
        source = self.take_input(what, free)
        target = self.take_output(f"new {what}", [None] * len(free))
        return StateSpec(source.name, target.name, tuple(shape), axis, source.dtype)

    def finish(self) -> None:
        """Raises ModelDamaged when inputs are left: they would not be fed."""
        if self._inputs:
            names = ", ".join(spec.name for spec in self._inputs)
            raise ModelDamaged(f"{self.file}: takes further inputs ({names}) than its metadata tells of")

    def _named(self, specs: list[TensorSpec], name: str) -> TensorSpec | None:
        found = next((spec for spec in specs if spec.name == name), None)
        if found is not None:
            specs.remove(found)
        return found

    def _take(self, specs: list[TensorSpec], kind: str, what: str, shape: Sequence[int | None]) -> TensorSpec:
        if not specs:
            raise ModelDamaged(f"{self.file}: has no {kind} for {what}; its metadata is another model's")
        spec = specs.pop(0)
        if not _fits(spec, shape):
            wanted = ", ".join("any" if length is None else str(length) for length in shape)
            raise ModelDamaged(f"{self.file}: {kind} {spec.name} is {spec}, {what} must be [{wanted}]")
        return spec


def _fits(spec: TensorSpec, shape: Sequence[int | None]) -> bool:
    """Lengths that the file leaves open fit anything; a batch axis may be fixed to 1."""
    return len(spec.shape) == len(shape) and all(
        wanted is None or isinstance(own, str) or own == wanted
        for own, wanted in zip(spec.shape, shape, strict=True)
    )


def fixed(spec: TensorSpec, axis: int, default: int) -> int:
    """Length of an axis, where the file fixes it."""
    length = spec.shape[axis]
    return length if isinstance(length, int) else default
