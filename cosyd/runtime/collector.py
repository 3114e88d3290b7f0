"""What a pipeline emits, as the messages that a daemon would publish: for a process that has no sockets."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable

import msgspec

from cosyd.config.schema import SourceConfig
from cosyd.publish.messages import AsrFinal, AsrPartial, Message
from cosyd.runtime.board import Board, SourceRecord
from cosyd.runtime.hotword_lists import log_rejected
from cosyd.runtime.ipc import Drained, FromWorker, Heard, HotwordsChecked, Located, Notice, Recognized

Kinds = tuple[type[Message], ...]


class Collector:
    """Give ``receive`` to ``open_recognition``; messages of one of ``kinds`` then go to ``collect``.

    They are stamped as a publisher stamps them; there is no journal, so ``kept`` stays 0. ``live``: what
    comes in was said just now, so latencies mean something; else they are 0, for nobody has waited.
    """

    def __init__(self, model: str, kinds: Kinds, collect: Callable[[Message], None]) -> None:
        self.live = False
        self.drained = False  # the source was read to its end, and all results of it are there
        self._board = Board(self._published, _nobody_asks, model)
        self._kinds = kinds
        self._collect = collect
        self._boot = uuid.uuid4().hex[:12]
        self._counts: Counter[str] = Counter()

    def add(self, source: SourceConfig) -> SourceRecord:
        """Expect what comes of this source."""
        self.drained = False
        return self._board.add(source)

    def receive(self, message: FromWorker) -> None:
        """Take a message of the pipeline."""
        if isinstance(message, Drained):
            self.drained = True
        elif isinstance(message, Recognized):
            self._board.recognised(self._board.records[message.source], message)
        elif isinstance(message, HotwordsChecked):
            log_rejected(message.rejected)
        elif isinstance(message, Heard):
            self._board.heard(message)
        elif isinstance(message, Located):
            self._board.located(message)
        elif isinstance(message, Notice):
            health = message.health
            self._board.health(message.source, health.code, health.severity, health.message, **health.details)

    def _published(self, message: Message) -> None:
        if isinstance(message, self._kinds):
            self._counts.update(("all", message.topic))
            self._collect(self._stamped(message))

    def _stamped(self, message: Message) -> Message:
        stamps: dict[str, object] = {
            "seq": self._counts["all"],
            "n": self._counts[message.topic],
            "boot": self._boot,
            "t_wall": time.time(),
            "t_mono_ns": time.monotonic_ns(),
        }
        if isinstance(message, AsrPartial | AsrFinal) and not self.live:
            stamps["latency_ms"] = 0.0
        return msgspec.structs.replace(message, **stamps)


def _nobody_asks(source: str) -> None:
    """There are no subscribers to whom a state could be told later."""
