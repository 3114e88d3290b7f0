"""A source that recognition cannot follow is told of once, and once when it can again."""

from cosyd.runtime.overload import BEHIND_S, CAUGHT_UP_S, Overload


def told(overload: Overload, *course: float) -> list[str | None]:
    return [news.code if (news := overload.check(behind_s)) else None for behind_s in course]


def test_told_once_each() -> None:
    course = (0.1, BEHIND_S - 0.1, BEHIND_S, BEHIND_S + 5, 1.0, CAUGHT_UP_S, 0.0, BEHIND_S)
    expected = [None, None, "overload", None, None, "overload_over", None, "overload"]
    assert told(Overload(), *course) == expected


def test_who_catches_up_is_not_overloaded_unless_it_gets_worse() -> None:
    assert told(Overload(), 20.0, 15.0, 10.0, 10.5, 6.0) == [None] * 5
    assert told(Overload(), 20.0, 15.0, 16.5) == [None, None, "overload"]


def test_says_how_far_behind_and_what_to_do() -> None:
    overload = Overload()
    overload.check(0.0)
    news = overload.check(7.25)
    assert news is not None
    assert news.details == {"behind_s": 7.2}
    assert "fewer sources" in news.message
