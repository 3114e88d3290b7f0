"""One network in two precisions: which of them is faster depends on how many streams share a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from cosyd.engine.memory import Memory
from cosyd.engine.protocol import Engine, Execution
from cosyd.engine.tensors import Misuse, TensorSpec
from cosyd.types import Backend

Array = NDArray[Any]


class EngineByBatch:
    """An Engine: up to ``most`` streams a step are ``few``'s, more are ``many``'s. Owns both.

    ``x``: the input whose first axis counts the streams. Raises Misuse when their tensors differ, as the
    states of a stream go from one to the other.
    """

    def __init__(self, few: Engine, many: Engine, most: int, x: str) -> None:
        if (few.inputs, few.outputs) != (many.inputs, many.outputs):
            raise Misuse(f"{few.name} and {many.name} have other inputs or outputs")
        self._few, self._many, self._most, self._x = few, many, most, x
        self.name = few.name
        self.parts = (few, many)

    @property
    def backend(self) -> Backend:
        return self._few.backend

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return self._few.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return self._few.outputs

    @property
    def metadata(self) -> Mapping[str, str]:
        return self._few.metadata

    @property
    def memory(self) -> Memory:
        return self._few.memory

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        return self.at(len(feeds[self._x]) if self._x in feeds else 0).run(feeds, outputs)

    def at(self, streams: int) -> Engine:
        """The one for so many."""
        return self._few if streams <= self._most else self._many

    def execution(self) -> Execution:
        """Of ``many``; whoever knows how many streams a step has asks ``engine_for`` that number first."""
        return self._many.execution()

    def close(self) -> None:
        for engine in self.parts:
            engine.close()

    def __enter__(self) -> EngineByBatch:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def engine_for(engine: Engine, streams: int) -> Engine:
    """What to open executions of so many streams on."""
    return engine.at(streams) if isinstance(engine, EngineByBatch) else engine
