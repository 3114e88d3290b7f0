"""The one interface of all engines.

An :class:`Engine` is a loaded network. It is used in one of two ways:

* ``run(feeds)``: arrays in, arrays out, on the host. Whoever has no GPU, and tests, need no more.
* ``execution()``: buffers are bound to names once, with room for the largest batch; each step sets the
  lengths of the free axes and enqueues. Nothing is copied or allocated. A *state*, an output that is an
  input of the next step, has two buffers that change places after each step.

::

    with engine.execution() as step:
        step.bind("x", x); step.bind("y", y)
        step.state("h", "h_out", N=64)          # allocates both buffers, zeroed
        for batch in batches:
            step.resize(N=len(batch))
            step.enqueue(stream)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from cosyd.engine.memory import Buffer, Memory
from cosyd.engine.tensors import TensorSpec
from cosyd.types import Backend

Array = NDArray[Any]


class Execution(Protocol):
    """One network over bound buffers. For one thread at a time; several of one engine are independent."""

    def bind(self, name: str, buffer: Buffer) -> None:
        """Use this memory for that input or output from the next step on. Raises InferenceError."""
        ...

    def state(self, source: str, target: str, /, **sizes: int) -> tuple[Buffer, Buffer]:
        """Allocate two zeroed buffers for these sizes: input ``source`` and output ``target``, which change
        places after each step. The first of the pair is the input of the next step."""
        ...

    def pair(self, source: str, target: str, /) -> None:
        """What is bound to input ``source`` and output ``target`` changes places after each step."""
        ...

    def buffer(self, name: str) -> Buffer:
        """What is bound to it now; for a state, what the next step reads or writes."""
        ...

    def resize(self, **sizes: int) -> None:
        """Lengths of free axes for the next steps; axes not named keep theirs. Raises InferenceError when a
        bound buffer is too small or the network does not take such a size."""
        ...

    def prepare(self, stream: int = 0) -> None:
        """Make all that the first step of any size would otherwise have to make."""
        ...

    def enqueue(self, stream: int = 0) -> None:
        """Do one step in stream order (CUstream as an integer); may return before it is done. Raises
        InferenceError; states have not changed places then."""
        ...

    def close(self) -> None:
        """Idempotent. Nothing enqueued may be running any more."""
        ...

    def __enter__(self) -> Execution: ...

    def __exit__(self, *exc: object) -> None: ...


class Engine(Protocol):
    """A loaded network."""

    @property
    def name(self) -> str:
        """For messages."""
        ...

    @property
    def inputs(self) -> tuple[TensorSpec, ...]: ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]: ...

    @property
    def metadata(self) -> Mapping[str, str]:
        """The ONNX file's own properties; empty where there are none."""
        ...

    @property
    def backend(self) -> Backend:
        """What it runs on and why."""
        ...

    @property
    def memory(self) -> Memory:
        """Where buffers for ``execution`` come from."""
        ...

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """Every input by name -> the named outputs, by default all. Raises InferenceError."""
        ...

    def execution(self) -> Execution:
        """A new one, nothing bound. Whoever opens closes."""
        ...

    def close(self) -> None:
        """Idempotent. Executions must be closed before."""
        ...

    def __enter__(self) -> Engine: ...

    def __exit__(self, *exc: object) -> None: ...
