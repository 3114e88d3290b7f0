"""From what runs meanwhile to TensorRT, once it is compiled: waited for, or beside the running streams."""

from __future__ import annotations

import logging
from collections.abc import Callable

from cosyd.engine.builder import Build, nobody_waits
from cosyd.engine.compile import BuildFailed
from cosyd.engine.managed import ManagedEngine, Opener
from cosyd.engine.memory import Memory
from cosyd.engine.network import Network
from cosyd.engine.plans import NotBuilt, Workshop
from cosyd.engine.protocol import Engine
from cosyd.engine.trt import TrtEngine
from cosyd.errors import ModelError

log = logging.getLogger(__name__)

MOST_BUILDS = 4  # the wanted precision and float32, each perhaps twice because a plan was damaged meanwhile


def open_waiting(workshop: Workshop, network: Network, alive: Callable[[], None] = nobody_waits) -> TrtEngine:
    """Compile what is missing and wait for it, which ``alive`` is told meanwhile. Raises BuildFailed."""
    for _ in range(MOST_BUILDS):
        try:
            return workshop.open(network)
        except NotBuilt as wanted:
            workshop.build(wanted, alive)
    raise BuildFailed(f"{network.name}: compiled {MOST_BUILDS} times and still not usable")


def upgradable(
    engine: Engine, workshop: Workshop, network: Network, fallback: Opener, memory: Memory | None
) -> ManagedEngine:
    """Loaded again from its plan after a fault; a plan that is gone is compiled beside the fallback."""

    def reopen() -> Engine:
        try:
            return workshop.open(network)
        except NotBuilt as wanted:
            if not managed.attended:
                upgrading(managed, workshop, network, wanted)
            raise

    managed = ManagedEngine(engine, reopen, fallback, memory=memory)
    return managed


def upgrading(engine: ManagedEngine, workshop: Workshop, network: Network, wanted: NotBuilt) -> ManagedEngine:
    """Start compiling; the engine changes over between two steps when that is done."""
    engine.attend(Upgrade(engine, workshop, network).start(wanted))
    return engine


class Upgrade:
    """Looked at between steps by the engine; owns the build."""

    def __init__(self, engine: ManagedEngine, workshop: Workshop, network: Network) -> None:
        self._engine, self._workshop, self._network = engine, workshop, network
        self._build: Build | None = None
        self._wanted: NotBuilt | None = None
        self._builds = 0

    def start(self, wanted: NotBuilt) -> Upgrade:
        self._wanted = wanted
        self._builds += 1
        self._build = Build(wanted.request, wanted.key, self._workshop.store.path(wanted.key)).start()
        return self

    def poll(self) -> bool:
        """True when there is nothing more to wait for."""
        if self._build is None or self._wanted is None:
            return True
        outcome = self._build.poll()
        if outcome is None:
            return False
        self._workshop.finished(self._wanted.key, outcome.fault, outcome.took_s)
        self.close()
        return self._change_over()

    def close(self) -> None:
        """Idempotent; ends a build that still runs."""
        if self._build is not None:
            self._build.close()
            self._build = None

    def _change_over(self) -> bool:
        try:
            engine = self._workshop.open(self._network)
        except NotBuilt as wanted:
            if self._builds < MOST_BUILDS:
                self.start(wanted)
                return False
            log.error("%s: compiled %d times and still not usable", self._network.name, self._builds)
            return True
        except ModelError as error:
            log.error("%s; %s goes on", error, self._engine.backend.name)
            return True
        self._engine.replace(engine)
        log.info("%s runs on %s from now on", self._network.name, engine.backend.name)
        return True
