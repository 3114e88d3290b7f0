"""Finals get their text as one would write it on the way out of recognition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cosyd.asr.text.scribe import Scribe
from cosyd.runtime.ipc import FromWorker, Recognized
from cosyd.types import Final


def with_writing(emit: Callable[[FromWorker], None], scribe: Scribe) -> Callable[[FromWorker], None]:
    """``emit`` itself when there is nothing to do."""

    def passed(message: FromWorker) -> None:
        if isinstance(message, Recognized) and isinstance(message.event, Final) and message.event.text:
            written = scribe.write(message.event.text)
            message = replace(message, event=replace(message.event, written=written))
        emit(message)

    return passed if scribe else emit
