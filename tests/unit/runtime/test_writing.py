"""Finals carry their written text beside what was recognised; all else passes as it is."""

from __future__ import annotations

from dataclasses import replace

from cosyd.asr.text.scribe import Scribe
from cosyd.runtime.ipc import FromWorker, Recognized
from cosyd.runtime.writing import with_writing
from cosyd.types import Checkpoint, Final, Partial

FINAL = Final(1, "flat white", 0, 16_000, "silence", 16_000)


def test_finals_are_written_and_keep_their_text() -> None:
    seen: list[FromWorker] = []
    emit = with_writing(seen.append, Scribe([str.title]))
    final = Recognized("mic", FINAL, Checkpoint(), 16_000, 0, 0.0)
    partial = replace(final, event=Partial(1, "flat", "", 0, 8_000))
    empty = replace(final, event=replace(FINAL, text=""))
    for message in (partial, final, empty):
        emit(message)
    assert seen == [partial, replace(final, event=replace(FINAL, written="Flat White")), empty]


def test_nothing_to_do_costs_nothing() -> None:
    seen: list[FromWorker] = []
    emit = seen.append
    assert with_writing(emit, Scribe([])) is emit
