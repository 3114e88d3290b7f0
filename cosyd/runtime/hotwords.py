"""The hotwords in effect: what the configuration says, and what commands made of it since.

Whoever spoke last is right: a command changes a list until the configuration (or the file it names) says
something new about that list. The daemon hands the lists to the recogniser inside of the configuration, so
that a restarted recogniser has them as well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from cosyd.asr.hotwords import MAX_PHRASES, Hotword, Rejected, parse_hotwords, read_hotwords
from cosyd.config.schema import Config
from cosyd.errors import ConfigError, ControlError
from cosyd.publish.control import HotwordsParams, Reply
from cosyd.publish.messages import DAEMON
from cosyd.runtime.board import Board
from cosyd.runtime.fleet import Fleet

log = logging.getLogger("cosyd.runtime")

EVERYWHERE = ""  # the list of all sources; each source has one of its own beside it
REASONS_TOLD = 5  # in one message; the log has them all
FILE_KEY = "asr.hotwords_file"


class HotwordLists:
    """The lists by source. ``rejected``: lines of the configuration that are no hotwords."""

    def __init__(self) -> None:
        self._lists: dict[str, tuple[Hotword, ...]] = {}
        self._written: dict[str, tuple[str, ...]] = {}
        self._file: tuple[str, tuple[str, ...]] = ("", ())  # its path and what it held
        self.rejected: tuple[Rejected, ...] = ()

    def configure(self, config: Config) -> Config:
        """Take what the configuration says, where it says something new; the configuration in effect."""
        lines, rejected = self._lines_of_file(config.asr.hotwords_file)
        written = {EVERYWHERE: (*config.asr.hotwords, *lines)}
        written |= {source.name: source.hotwords for source in config.sources}
        for scope, said in written.items():
            hotwords, wrong = parse_hotwords(said)
            rejected += wrong
            if self._written.get(scope) != said:
                self._lists[scope] = hotwords
        self._written = written
        self._lists = {scope: self._lists[scope] for scope in written}
        self.rejected = tuple(rejected)
        return self.applied(config)

    def _lines_of_file(self, path: str | None) -> tuple[tuple[str, ...], list[Rejected]]:
        """Of one that cannot be read now, what it held before."""
        if path is None:
            return (), []
        try:
            self._file = (path, tuple(read_hotwords(Path(path))))
        except ConfigError as error:
            known = self._file[1] if self._file[0] == path else ()
            return known, [Rejected(FILE_KEY, str(error))]
        return self._file[1], []

    def applied(self, config: Config) -> Config:
        """This configuration with the lists in effect in the place of what it says itself."""
        asr = config.asr.model_copy(update={"hotwords": self._spelled(EVERYWHERE)})
        sources = tuple(
            source.model_copy(update={"hotwords": self._spelled(source.name)}) for source in config.sources
        )
        return config.model_copy(update={"asr": asr, "sources": sources})

    def _spelled(self, scope: str) -> tuple[str, ...]:
        return tuple(str(hotword) for hotword in self._lists.get(scope, ()))

    def of(self, scope: str) -> tuple[Hotword, ...]:
        return self._lists.get(scope, ())

    def all(self) -> tuple[Hotword, ...]:
        return tuple(hotword for hotwords in self._lists.values() for hotword in hotwords)

    def replace(self, scope: str, hotwords: Iterable[Hotword]) -> None:
        self._lists[scope] = tuple(hotwords)

    def drop(self, rejected: Iterable[Rejected]) -> None:
        """Take these phrases out of all lists."""
        phrases = {item.phrase for item in rejected}
        for scope, hotwords in self._lists.items():
            self._lists[scope] = tuple(hotword for hotword in hotwords if hotword.phrase not in phrases)


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
        accepted, overflow = _room(accepted, kept)
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
        for item in rejected:
            log.warning("hotword without effect: %s: %s", item.phrase, item.reason)
        told = [f"{item.phrase}: {item.reason}" for item in rejected[:REASONS_TOLD]]
        more = f" and {len(rejected) - REASONS_TOLD} more" if len(rejected) > REASONS_TOLD else ""
        text = f"hotwords without effect: {'; '.join(told)}{more}"
        self._board.health(DAEMON, "hotwords_rejected", "warning", text, count=len(rejected))


def _key(phrase: str) -> str:
    """As ``Hotword.key``, of a phrase with or without a score."""
    hotwords, _ = parse_hotwords((phrase,))
    return hotwords[0].key if hotwords else phrase.casefold()


def _room(
    accepted: list[Hotword], kept: Mapping[str, Hotword]
) -> tuple[list[Hotword], list[Rejected]]:
    """As many as the list takes; the others are rejected."""
    new = [hotword for hotword in accepted if hotword.key not in kept]
    beyond = {hotword.key for hotword in new[max(0, MAX_PHRASES - len(kept)) :]}
    rejected = [
        Rejected(hotword.phrase, f"the list has {MAX_PHRASES} phrases already")
        for hotword in accepted
        if hotword.key in beyond
    ]
    return [hotword for hotword in accepted if hotword.key not in beyond], rejected
