"""What the fleet and its supervisors have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cosyd.config.paths import Paths
from cosyd.config.schema import Config
from cosyd.runtime.board import Board
from cosyd.runtime.ipc import Failed
from cosyd.runtime.metrics import Metrics
from cosyd.runtime.supervision import Patience


@dataclass
class FleetContext:
    """``config``: the one in effect, which the next worker starts with; the fleet exchanges it at a reload.

    ``on_fatal`` is told of what no restart can mend.
    """

    config: Config
    paths: Paths
    board: Board
    metrics: Metrics
    patience: Patience
    on_fatal: Callable[[Failed], None]
