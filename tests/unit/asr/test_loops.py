"""Loops of a decoder are cut; what people repeat is not."""

import pytest

from cosyd.asr.loops import cut_loop


def decode(tokens: list[int]) -> list[int]:
    """As a decoder does it: look after each token, stop at a cut."""
    said: list[int] = []
    for token in tokens:
        said.append(token)
        if cut_loop(said):
            break
    return said


def test_a_phrase_said_three_times_is_kept_once() -> None:
    assert decode([9, 8, 7] + [1, 2, 3, 4, 5] * 10) == [9, 8, 7, 1, 2, 3, 4, 5]


def test_a_token_over_and_over_is_kept_once() -> None:
    assert decode([9, *[1] * 50]) == [9, 1]


@pytest.mark.parametrize("tokens", [[1] * 8, [1, 2] * 4, [1, 2, 3] * 2, [1, 2, 3, 4, 5, 6] * 2, []])
def test_people_repeat_themselves(tokens: list[int]) -> None:
    assert decode(tokens) == tokens


def test_repetition_in_the_middle_is_none_at_the_end() -> None:
    tokens = [1, 2, 3, 4, 1, 2, 3, 4, 5, 1, 2, 3, 4]
    assert decode(tokens) == tokens
