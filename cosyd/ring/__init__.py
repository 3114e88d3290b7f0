"""The shared-memory ring between a capture process and its readers: one writer, many readers, no locks.

The header of ``ring_core.h`` explains how it works; ``reference.py`` says the same in plain Python.
"""

from cosyd.ring.data import Block, ReaderStatistics, WriterState, WriterStatistics
from cosyd.ring.reader import RingReader
from cosyd.ring.writer import RingWriter, remove_ring

__all__ = [
    "Block",
    "ReaderStatistics",
    "RingReader",
    "RingWriter",
    "WriterState",
    "WriterStatistics",
    "remove_ring",
]
