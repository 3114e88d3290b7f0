"""Recognisers by name."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Protocol

from cosyd.asr.recognizer import SegmentRecognizer
from cosyd.config.schema import AsrConfig
from cosyd.errors import ConfigError


class Store(Protocol):
    """What is needed of ``cosyd.models.store.ModelStore``: the folder of a verified model."""

    def require(self, name: str) -> Path: ...


def _moonshine(folder: Path, name: str, threads: int) -> SegmentRecognizer:
    from cosyd.asr.moonshine import Moonshine

    return Moonshine.load(folder, name=name, threads=threads)


_LOADERS: dict[str, Callable[[Path, str, int], SegmentRecognizer]] = {"moonshine-tiny-en": _moonshine}

RECOGNIZERS = tuple(_LOADERS)


def load_recognizer(config: AsrConfig, store: Store) -> SegmentRecognizer:
    """The recogniser that the configuration names, loaded and warm.

    Raises ConfigError for a name that is no recogniser's, ModelMissing or ModelDamaged for its files.
    """
    loader = _LOADERS.get(config.model)
    if loader is None:
        raise ConfigError([f"asr.model: {config.model!r} is not a recogniser{_hint(config.model)}"])
    recognizer = loader(store.require(config.model), config.model, config.threads)
    recognizer.warm_up()
    return recognizer


def _hint(name: str) -> str:
    close = get_close_matches(name, RECOGNIZERS, 1)
    return f", did you mean {close[0]!r}?" if close else f"; there are: {', '.join(RECOGNIZERS)}"
