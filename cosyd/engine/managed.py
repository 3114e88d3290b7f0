"""An engine that outlives its plan: exchanged while streams run, reloaded when it fails.

Users keep one ManagedEngine and its executions for good. What they have bound, their states included, is kept
here; when the engine underneath is exchanged, executions move to the new one before their next step and no
stream notices. A failed step has not moved its states (two buffers, swapped only after success), so it is
simply done again.

After a fault: the plan is loaded anew and the step repeated. When that fails too, the fallback (ONNX Runtime)
goes on with the same states, and the plan is tried again after 1, 2, 4, 8, 8 … s, so that an engine whose
trouble is over is back well within 30 s. A fault that leaves the CUDA context unusable takes the process with
it; the supervisor starts another.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cosyd.engine.faults import Faults
from cosyd.engine.managed_execution import ManagedExecution
from cosyd.engine.memory import Memory
from cosyd.engine.protocol import Engine
from cosyd.engine.tensors import Misuse, TensorSpec
from cosyd.errors import CosydError, GpuError, InferenceError
from cosyd.types import Backend

log = logging.getLogger(__name__)

Array = NDArray[Any]
Opener = Callable[[], Engine]

LOOK_EVERY_S = 1.0  # at a build that runs beside


class Upgrading(Protocol):
    """A better engine that is on its way (``upgrade.Upgrade``)."""

    def poll(self) -> bool: ...

    def close(self) -> None: ...


class ManagedEngine:
    """An Engine over a replaceable one. For one thread at a time.

    ``reopen`` loads the preferred engine again; ``fallback`` opens what goes on when that fails, if anything.
    ``memory``: where users' buffers are; an engine on other memory gets copies.
    """

    def __init__(
        self,
        engine: Engine,
        reopen: Opener,
        fallback: Opener | None = None,
        *,
        memory: Memory | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = engine.name
        self.memory = memory or engine.memory
        self._engine = engine
        self._reopen, self._fallback, self._clock = reopen, fallback, clock
        self._degraded = False
        self._faults = Faults(clock)
        self._retired: list[Engine] = []
        self._executions: list[ManagedExecution] = []
        self._upgrade: Upgrading | None = None
        self._look_at = 0.0

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return self._engine.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return self._engine.outputs

    @property
    def metadata(self) -> Mapping[str, str]:
        return self._engine.metadata

    @property
    def backend(self) -> Backend:
        if not self._degraded:
            return self._engine.backend
        return Backend(self._engine.backend.name, f"after a fault, until it is over: {self._faults.last}")

    @property
    def faults(self) -> int:
        """How many there were since the start."""
        return self._faults.count

    @property
    def current(self) -> Engine:
        return self._engine

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        result: dict[str, Array] = self._guarded(lambda: self._engine.run(feeds, outputs))
        return result

    def execution(self) -> ManagedExecution:
        execution = ManagedExecution(self)
        self._executions.append(execution)
        return execution

    def attend(self, upgrade: Upgrading) -> None:
        """Look at this about once a second, between steps, until it says that it is done."""
        self._upgrade = upgrade

    @property
    def attended(self) -> bool:
        return self._upgrade is not None

    def replace(self, engine: Engine) -> None:
        """From the next step on, all executions use this one; the old one is closed when the last has moved.
        Raises Misuse, and changes nothing, when its tensors differ."""
        if [*engine.inputs, *engine.outputs] != [*self._engine.inputs, *self._engine.outputs]:
            raise Misuse(f"{self.name}: the new engine has other inputs or outputs")
        self._retired.append(self._engine)
        self._engine = engine
        self._degraded = False
        self._close_retired()

    def look(self) -> None:
        """Between two steps, which do it themselves: change over to what is better, if it is time."""
        if self._upgrade is not None:
            self._look_at_upgrade(self._upgrade)
        if self._degraded and self._faults.may_retry:
            self._try_again()

    def warm_up(self, sizes: Sequence[Mapping[str, int]], fill: Mapping[str, int] | None = None) -> None:
        """Run once for each of these sizes, so that the first real step is as fast as any. Inputs are ones,
        because lengths and masks of zero would be no usual input, but for those that ``fill`` names."""
        values = fill or {}
        for each in sizes:
            shapes = {spec: spec.sized(each) for spec in self.inputs}
            self.run({s.name: np.full(shape, values.get(s.name, 1), s.dtype) for s, shape in shapes.items()})
        keep = getattr(self._engine, "keep_kernels", None)
        if keep is not None:
            keep()

    def close(self) -> None:
        if self._upgrade is not None:
            self._upgrade.close()
            self._upgrade = None
        for execution in list(self._executions):
            execution.close()
        self._engine.close()
        self._close_retired()

    def __enter__(self) -> ManagedEngine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # --- for executions --------------------------------------------------------------------------------

    def guarded_step(self, step: Callable[[], None]) -> None:
        self._guarded(step)

    def forget(self, execution: ManagedExecution) -> None:
        if execution in self._executions:
            self._executions.remove(execution)
            self._close_retired()

    def moved(self) -> None:
        self._close_retired()

    # --- faults ----------------------------------------------------------------------------------------

    def _guarded(self, action: Callable[[], Any]) -> Any:
        """Do it; on a fault reload and do it again; then on the fallback."""
        self.look()
        try:
            result = action()
        except Misuse:
            raise
        except (InferenceError, GpuError) as error:
            result = self._recover(action, error)
        self._faults.went_well()
        return result

    def _recover(self, action: Callable[[], Any], error: CosydError) -> Any:
        self._note(error)
        if self._faults.may_retry and self._load():
            try:
                return action()
            except (InferenceError, GpuError) as again:
                self._note(again)
        self._faults.postpone()
        if self._fallback is None or self._degraded:
            raise error
        self._fall_back()
        return action()

    def _look_at_upgrade(self, upgrade: Upgrading) -> None:
        now = self._clock()
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY_S
            if upgrade.poll():
                upgrade.close()
                self._upgrade = None

    def _note(self, error: CosydError) -> None:
        self._faults.note(error)
        log.warning("%s; fault %d, the engine is loaded again", error, self.faults)

    def _load(self) -> bool:
        """The preferred engine anew. False, and one line in the log, when that fails."""
        try:
            self.replace(self._reopen())
        except CosydError as error:
            log.warning("%s: loading it again failed: %s", self.name, error)
            return False
        return True

    def _fall_back(self) -> None:
        assert self._fallback is not None
        self.replace(self._fallback())
        self._degraded = True
        log.warning("%s goes on with %s for now", self.name, self._engine.backend.name)

    def _try_again(self) -> None:
        if self._load():
            log.info("%s is back on %s", self.name, self._engine.backend.name)
        else:
            self._faults.postpone(failed_again=True)

    def _close_retired(self) -> None:
        used = {id(execution.engine) for execution in self._executions}
        for engine in [each for each in self._retired if id(each) not in used]:
            self._retired.remove(engine)
            engine.close()
