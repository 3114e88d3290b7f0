"""TensorRT's messages, in our log; the last error is kept for whoever has to say why something failed."""

from __future__ import annotations

import logging
from typing import Any

log = logging.getLogger("cosyd.tensorrt")


def make_logger(module: Any) -> Any:
    """An ILogger of that library. ``last_error``: one line."""
    severities = module.ILogger.Severity
    levels = {
        severities.INTERNAL_ERROR: logging.ERROR,
        severities.ERROR: logging.ERROR,
        severities.WARNING: logging.DEBUG,  # about int64 inputs and the like, at every build
        severities.INFO: logging.DEBUG,
    }

    class Logger(module.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            module.ILogger.__init__(self)
            self.last_error = "no reason given"

        def log(self, severity: Any, message: str) -> None:
            level = levels.get(severity)
            if level is None:
                return
            line = " ".join(message.split())
            if level == logging.ERROR:
                self.last_error = line
                level = logging.DEBUG  # whoever called raises it with what was being done
            log.log(level, "%s", line)

    return Logger()
