"""The lists of hotwords: what the configuration and the file it names say, and what was made of it since."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from cosyd.asr.hotwords import Hotword, Rejected, parse_hotwords, read_hotwords
from cosyd.config.schema import Config
from cosyd.errors import ConfigError

log = logging.getLogger("cosyd.runtime")

EVERYWHERE = ""  # the list of all sources; each source has one of its own beside it
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

    def beside(self, scope: str) -> int:
        """Phrases that a source has besides those of this list: of all sources, or the most of one."""
        if scope != EVERYWHERE:
            return len(self.of(EVERYWHERE))
        return max((len(hotwords) for name, hotwords in self._lists.items() if name != EVERYWHERE), default=0)

    def replace(self, scope: str, hotwords: Iterable[Hotword]) -> None:
        self._lists[scope] = tuple(hotwords)

    def drop(self, rejected: Iterable[Rejected]) -> None:
        """Take these phrases out of all lists."""
        phrases = {item.phrase for item in rejected}
        for scope, hotwords in self._lists.items():
            self._lists[scope] = tuple(hotword for hotword in hotwords if hotword.phrase not in phrases)


def with_hotwords(config: Config) -> Config:
    """The configuration with the phrases of its file, where nobody changes them; wrong lines are logged."""
    lists = HotwordLists()
    applied = lists.configure(config)
    log_rejected(lists.rejected)
    return applied


def log_rejected(rejected: Iterable[Rejected]) -> None:
    for item in rejected:
        log.warning("hotword without effect: %s: %s", item.phrase, item.reason)
