"""What is told of texts that differ."""

from __future__ import annotations

from pathlib import Path

from cosyd.bench.report import Report
from cosyd.bench.streaming_cost import STREAMS, Case, Said, Tokens

EXACT, BY_BATCH = Case("a", Path()), Case("b", Path(), exact=False)


def told(said: Said, case: Case) -> tuple[float, float | None]:
    report = Report("streaming", "", "", quick=True)
    said.tell(report, case)
    (figure,) = report.as_dict()["figures"]
    return figure["value"], figure["target"]


def texts(*first: str) -> Tokens:
    return [list(first), *(["same"] for _ in range(STREAMS - 1))]


def test_a_round_differs_where_one_token_does() -> None:
    said = Said()
    said.add([["a", "b"]], [["a", "b"]], [["a", "b"]])
    said.add([["a", "b"]], [["a", "c"]], [["a", "b"]])
    assert told(said, EXACT) == (1, 0)


def test_tokens_are_held_against_what_the_peer_itself_makes_of_a_batch() -> None:
    said = Said()
    said.add(texts("a", "b", "c"), texts("a", "b", "d"), texts("a", "x", "e"))  # of ten
    assert told(said, BY_BATCH) == (10, 20)


def test_one_stream_is_no_batch() -> None:
    said = Said()
    said.add([["a"]], [["b"]], [["b"]])
    said.add(texts("a"), texts("a"), texts("a"))
    assert told(said, BY_BATCH) == (0, 0)
