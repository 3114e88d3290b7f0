"""The hotwords in effect: what the configuration says, and what commands made of it since.

Whoever spoke last is right: a command changes a list until the configuration (or the file it names) says
something new about that list. The daemon hands the lists to the recogniser inside of the configuration, so
that a restarted recogniser has them as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from cosyd.asr.hotwords import MAX_PHRASES, Hotword, Rejected, parse_hotwords
from cosyd.errors import ControlError
from cosyd.publish.control import HotwordsParams, Reply
from cosyd.publish.messages import DAEMON
from cosyd.runtime.board import Board
from cosyd.runtime.fleet import Fleet
from cosyd.runtime.hotword_lists import EVERYWHERE, HotwordLists, log_rejected

REASONS_TOLD = 5  # in one message; the log has them all


class HotwordKeeper:
    """Carries out the command, and tells which phrases have no effect."""

    def __init__(self, lists: HotwordLists, fleet: Fleet, board: Board) -> None:
        self._lists = lists
        self._fleet = fleet
        self._board = board
        self._changing = asyncio.Lock()

    async def change(self, params: HotwordsParams) -> Reply:
        """Change the list of all sources, or of one; the reply says what became of each phrase."""
        scope = EVERYWHERE if params.source is None else params.source
        if scope != EVERYWHERE and scope not in self._board.records:
            raise ControlError(f"no source {scope!r}; there are {', '.join(self._board.records)}")
        async with self._changing:
            return await self._change(scope, params)

    async def _change(self, scope: str, params: HotwordsParams) -> Reply:
        wanted, rejected = parse_hotwords((*(params.set or ()), *params.add))
        unusable = await self._fleet.recognition.check_hotwords(wanted) if wanted else ()
        refused = {item.phrase for item in unusable}
        accepted = [hotword for hotword in wanted if hotword.phrase not in refused]
        kept = {} if params.set is not None else {hotword.key: hotword for hotword in self._lists.of(scope)}
        accepted, overflow = _room(accepted, kept, self._lists.beside(scope))
        missing = [phrase for phrase in params.remove if kept.pop(_key(phrase), None) is None]
        kept |= {hotword.key: hotword for hotword in accepted}
        if tuple(kept.values()) != self._lists.of(scope):
            self._lists.replace(scope, kept.values())
            self._fleet.favour(self._lists.applied)
        gone = [Rejected(phrase, "is not in the list") for phrase in missing]
        return {
            "accepted": [str(hotword) for hotword in accepted],
            "rejected": [
                {"phrase": item.phrase, "reason": item.reason}
                for item in (*rejected, *unusable, *overflow, *gone)
            ],
            "hotwords": [str(hotword) for hotword in self._lists.of(scope)],
            "sources": self._of_sources(),
        }

    def _of_sources(self) -> dict[str, list[str]]:
        """The lists of single sources, where there are any."""
        lists = {name: [str(hotword) for hotword in self._lists.of(name)] for name in self._board.records}
        return {name: hotwords for name, hotwords in lists.items() if hotwords}

    async def check(self) -> None:
        """Tell what of the configuration has no effect. Raises ControlError when nobody can be asked."""
        async with self._changing:
            hotwords = self._lists.all()
            unusable = await self._fleet.recognition.check_hotwords(hotwords) if hotwords else ()
            if unusable:
                self._lists.drop(unusable)
                self._fleet.favour(self._lists.applied)
            self._tell((*self._lists.rejected, *unusable))

    def _tell(self, rejected: tuple[Rejected, ...]) -> None:
        if not rejected:
            return
        log_rejected(rejected)
        told = [f"{item.phrase}: {item.reason}" for item in rejected[:REASONS_TOLD]]
        more = f" and {len(rejected) - REASONS_TOLD} more" if len(rejected) > REASONS_TOLD else ""
        text = f"hotwords without effect: {'; '.join(told)}{more}"
        self._board.health(DAEMON, "hotwords_rejected", "warning", text, count=len(rejected))


def _key(phrase: str) -> str:
    """As ``Hotword.key``, of a phrase with or without a score."""
    hotwords, _ = parse_hotwords((phrase,))
    return hotwords[0].key if hotwords else phrase.casefold()


def _room(
    accepted: list[Hotword], kept: Mapping[str, Hotword], beside: int
) -> tuple[list[Hotword], list[Rejected]]:
    """As many as hold together with ``beside`` phrases of another list; the others are rejected."""
    new = [hotword for hotword in accepted if hotword.key not in kept]
    beyond = {hotword.key for hotword in new[max(0, MAX_PHRASES - len(kept) - beside) :]}
    rejected = [
        Rejected(hotword.phrase, f"the list has {MAX_PHRASES} phrases already")
        for hotword in accepted
        if hotword.key in beyond
    ]
    return [hotword for hotword in accepted if hotword.key not in beyond], rejected
