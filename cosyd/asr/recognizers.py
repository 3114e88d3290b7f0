"""Recognisers by name."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cosyd.asr.calibrated import told
from cosyd.asr.recognizer import SegmentRecognizer
from cosyd.config.languages import codes_of, named
from cosyd.config.schema import AsrConfig
from cosyd.errors import ConfigError
from cosyd.models.pages import in_huge_pages

if TYPE_CHECKING:
    from cosyd.asr.moonshine_networks import Networks
    from cosyd.asr.streaming.model import OpenEngine
    from cosyd.asr.streaming.recognizer import CachedStateRecognizer

# Measured on training recordings: 23 % more decoder time, and of the words that one path gets wrong 7 %
# (clear speech) to 19 % (a studio voice in kitchen noise) come out right.
FINALS_BEAM = 4

OpenNetworks = Callable[[Path], "Networks"]  # from a folder with Moonshine's files


class Store(Protocol):
    """What is needed of ``cosyd.models.store.ModelStore``: folders of verified models and of one's own."""

    def require(self, name: str) -> Path: ...

    def own(self, name: str) -> Path | None: ...


def _moonshine(
    folder: Path, config: AsrConfig, open_networks: OpenNetworks | None = None
) -> SegmentRecognizer:
    from cosyd.asr.moonshine import Moonshine

    beam = config.beam or FINALS_BEAM
    return Moonshine.load(
        folder, name=config.model, threads=config.threads, beam=beam, open_networks=open_networks
    )


def _whisper(folder: Path, config: AsrConfig) -> SegmentRecognizer:
    from cosyd.asr.whisper import Whisper

    return Whisper.load(
        folder,
        name=folder.name,
        language=config.language,
        threads=config.threads,
        beam=config.beam or FINALS_BEAM,
    )


_LOADERS: dict[str, Callable[[Path, AsrConfig], SegmentRecognizer]] = {
    "moonshine-tiny-en": _moonshine,
    "whisper-tiny-en": _whisper,
    "whisper-base": _whisper,
}
_ENGLISH_ONLY = {"moonshine-tiny-en", "whisper-tiny-en"}
OF_MANY_LANGUAGES = "whisper-base"

RECOGNIZERS = tuple(_LOADERS)
ON_ENGINES = ("moonshine-tiny-en",)  # also on a GPU, as the folders of streaming models


def hears(model: str, language: str) -> bool:
    """Whether a model, by its name, may know what ``asr.language`` says. Of a folder of one's own its loading
    tells."""
    return model not in _ENGLISH_ONLY or set(codes_of(language)) <= {"en"}


def prepare(model: str, folder: Path) -> None:
    """What a model that has just been pulled needs before its first use. Raises ModelDamaged."""
    if model in ON_ENGINES:
        from cosyd.engine.moonshine_files import lean_files

        lean_files(folder)


def load_recognizer(
    config: AsrConfig, store: Store, open_networks: OpenNetworks | None = None
) -> SegmentRecognizer:
    """The recogniser that the configuration names, loaded and warm, with its model's calibration.
    ``open_networks``: opens Moonshine's; None: on the processor.

    Raises ConfigError for a name that is no recogniser's and for a language that it does not hear,
    ModelMissing or ModelDamaged for its files.
    """
    recognizer = told(*_load(config, store, open_networks))
    recognizer.warm_up()
    return recognizer


def load_uncalibrated(config: AsrConfig, store: Store) -> SegmentRecognizer:
    """The same with confidences as the network gives them. Raises as ``load_recognizer`` does."""
    return _load(config, store, None)[0]


def _load(
    config: AsrConfig, store: Store, open_networks: OpenNetworks | None
) -> tuple[SegmentRecognizer, Path]:
    """And the folder of its model."""
    loader = _whisper if runs_whisper(config.model, store) else _LOADERS.get(config.model)
    if loader is None:
        raise ConfigError([f"asr.model: {config.model!r} is not a recogniser{_hint(config.model)}"])
    if not hears(config.model, config.language):
        remedy = f"set asr.model to {OF_MANY_LANGUAGES} for {named(config.language)}"
        raise ConfigError([f"asr.language: {config.model} hears English only; {remedy}"])
    if open_networks is not None and config.model in ON_ENGINES:
        loader = partial(_moonshine, open_networks=open_networks)
    folder = store.require(config.model)
    with in_huge_pages():
        return loader(folder, config), folder


def streaming_folder(config: AsrConfig, store: Store) -> Path | None:
    """The folder of one's own streaming model that the configuration names; None: it names a recogniser of
    whole utterances, one of cosyd's or the folder of a Whisper."""
    folder = None if config.model in _LOADERS else store.own(config.model)
    return None if _is_whisper(folder) else folder


def runs_whisper(model: str, store: Store) -> bool:
    """Whether a model, by its name or folder, is a Whisper, which needs CTranslate2."""
    if model in _LOADERS:
        return _LOADERS[model] is _whisper
    return _is_whisper(store.own(model))


def _is_whisper(folder: Path | None) -> bool:
    """Whether it looks like a model in CTranslate2's format; what it really is, loading it tells."""
    return folder is not None and (folder / "model.bin").is_file()


def open_streaming(
    config: AsrConfig, folder: Path, streams: int, open_engine: OpenEngine | None = None
) -> CachedStateRecognizer:
    """The streaming model in a folder, loaded and warm, for so many streams at a time.

    ``open_engine``: opens its networks' files; None: on the processor. Raises ModelMissing or ModelDamaged
    for what is no such folder.
    """
    from cosyd.asr.streaming.recognizer import CachedStateRecognizer

    recognizer = CachedStateRecognizer.load(
        folder,
        name=folder.name,
        open_engine=open_engine,
        threads=config.threads,
        paths=config.beam or 1,
        capacity=streams,
        language_model=None if config.language_model is None else Path(config.language_model),
        language_weight=config.language_weight,
        precision=config.precision,
    )
    recognizer.warm_up()
    return recognizer


def _hint(name: str) -> str:
    close = get_close_matches(name, RECOGNIZERS, 1)
    if close:
        return f", did you mean {close[0]!r}?"
    return f"; there are: {', '.join(RECOGNIZERS)}, and the folder of any streaming model or Whisper"
