"""cosyd: an edge daemon that turns microphone arrays into text on ZeroMQ.

``Pipeline`` and ``AsyncPipeline`` are the same recogniser as a library (``cosyd.pipeline``); ``cosyd.client``
is for programs that listen to a daemon.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cosyd.version import VERSION as __version__

if TYPE_CHECKING:
    from cosyd.pipeline import AsyncPipeline, Pipeline

__all__ = ["AsyncPipeline", "Pipeline", "__version__"]


def __getattr__(name: str) -> Any:
    """Loaded when asked for: who needs the client alone does not pay for the recogniser."""
    if name in ("AsyncPipeline", "Pipeline"):
        return getattr(import_module("cosyd.pipeline"), name)
    raise AttributeError(f"module 'cosyd' has no attribute {name!r}")
