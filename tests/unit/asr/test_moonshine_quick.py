"""Which tokens of an earlier result a quick one keeps: promised ones always, others where they are likely."""

import numpy as np
import pytest

from cosyd.asr.moonshine_draft import LEAST_KNOWN, NEARLY, OPEN_TOKENS, Begun

TOKENS = (3, 1, 2, 4)


def logits(*behind: float) -> np.ndarray:
    """Each token of ``TOKENS`` is so many nats behind the likeliest one, which is token 0."""
    rows = np.full((len(behind) + 1, 6), -50.0, np.float32)
    for row, (token, nats) in enumerate(zip(TOKENS, behind, strict=False)):
        rows[row, 0], rows[row, token] = 5.0, 5.0 - nats
        if nats == 0.0:
            rows[row, 0] = 4.0
    return rows


@pytest.mark.parametrize(
    ("behind", "forced", "lenient", "kept"),
    [
        ((0, 0, 0, 0), 0, 0, 4),
        ((0, 0, 0.1, 0), 0, 0, 2),
        ((0.1, 0, 0, 0), 0, 0, 0),
        ((0, NEARLY - 0.1, NEARLY - 0.1, 0), 0, 3, 4),  # what was said stays
        ((0, NEARLY - 0.1, NEARLY + 0.1, 0), 0, 3, 2),  # unless something else is much likelier
        ((0, 0, 0, NEARLY - 0.1), 0, 3, 3),  # the last word may have been cut off
        ((40, 40, 0, 0), 2, 0, 4),  # promised
        ((40, 40, 1, 0), 2, 0, 2),
    ],
)
def test_what_stays_of_a_draft(behind: tuple[float, ...], forced: int, lenient: int, kept: int) -> None:
    assert Begun(TOKENS, forced, lenient).agreed(logits(*behind)) == kept


def test_nothing_stays_of_nothing() -> None:
    assert Begun(()).agreed(logits()) == 0


@pytest.mark.parametrize(
    ("alike", "known"),
    [
        (OPEN_TOKENS + 20, 20),
        (15, 15),  # what was said differently is not known
        (LEAST_KNOWN, LEAST_KNOWN),
        (LEAST_KNOWN - 1, 0),  # hardly worth it
    ],
)
def test_of_a_long_draft_the_beginning_that_was_said_is_known(alike: int, known: int) -> None:
    draft = tuple(range(OPEN_TOKENS + 20))
    said = (*draft[:alike], *(-1 for _ in draft[alike:]))
    assert Begun(draft).known(said) == known


def test_what_is_left_after_the_known_tokens() -> None:
    assert Begun(TOKENS, 2, 3).after(1) == Begun(TOKENS[1:], 1, 2)
    assert Begun(TOKENS, 1, 3).after(2) == Begun(TOKENS[2:], 0, 1)
