"""A page of a replay, as the daemon's reply has it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import NamedTuple

from cosyd.errors import ControlError, PublishError
from cosyd.publish.messages import AnyMessage, from_object

log = logging.getLogger(__name__)


class Page(NamedTuple):
    """``since``: where the next page begins; ``more``: whether there is one."""

    events: list[AnyMessage]
    since: int
    more: bool


def read_page(reply: dict[str, object]) -> Page:
    """Of the reply to ``replay``. Raises ControlError where it is none."""
    events, next_since = reply.get("events"), reply.get("next")
    if not isinstance(events, list) or not isinstance(next_since, int):
        raise ControlError("the reply to replay has no events; is that address a cosyd's?")
    return Page(list(_known(events)), next_since, reply.get("more") is True)


def _known(events: list[object]) -> Iterator[AnyMessage]:
    """Without those of a type that this version does not know."""
    for event in events:
        try:
            yield from_object(event)
        except PublishError as error:
            log.debug("ignored a replayed event: %s", error)
