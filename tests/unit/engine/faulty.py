"""An engine whose faults are on a switch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cosyd.engine.protocol import Engine, Execution
from cosyd.errors import InferenceError


class Switch:
    """``on``: every step fails. ``once``: the next one does. ``opened``, ``closed``: counts of engines."""

    def __init__(self) -> None:
        self.on = self.once = False
        self.opened = self.closed = 0

    def check(self) -> None:
        if self.on or self.once:
            self.once = False
            raise InferenceError("test network failed: injected")


class Faulty:
    """Delegates to an engine; a step fails before it does anything, or after its outputs were written."""

    def __init__(self, engine: Engine, switch: Switch) -> None:
        self._engine, self._switch = engine, switch
        switch.opened += 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def run(self, feeds: Mapping[str, Any], outputs: Sequence[str] | None = None) -> dict[str, Any]:
        self._switch.check()
        return self._engine.run(feeds, outputs)

    def execution(self) -> Execution:
        execution = self._engine.execution()
        launch = execution._launch  # type: ignore[attr-defined]

        def failing(*arguments: Any) -> None:
            launch(*arguments)
            self._switch.check()

        execution._launch = failing  # type: ignore[attr-defined]
        return execution

    def close(self) -> None:
        self._switch.closed += 1
        self._engine.close()
