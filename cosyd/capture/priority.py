"""Asking the kernel to run the capture of a device before everything else.

For devices only: a file read as fast as it goes would keep everybody else from a core. Threads started
later inherit it, PortAudio's callback thread among them.
"""

from __future__ import annotations

import os

FIFO_PRIORITY = 5  # above all ordinary work, below the kernel's own interrupt threads (50)
NICE = -11  # what audio servers use when real-time scheduling is refused


def raise_priority() -> str:
    """Real-time scheduling if allowed, else a better nice value, else nothing. Returns which and why."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(FIFO_PRIORITY))
        return f"real-time, SCHED_FIFO {FIFO_PRIORITY}"
    except OSError as refused:
        reason = refused.strerror
    try:
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
        return f"nice {NICE}; real-time scheduling was refused ({reason})"
    except OSError as error:
        return f"ordinary; real-time was refused ({reason}), nice {NICE} too ({error.strerror})"
