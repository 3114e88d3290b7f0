"""The steps from spoken to written text that the configuration asks for, in their order."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from cosyd.asr.text.mask import Mask, read_words
from cosyd.asr.text.numbers import Numbers
from cosyd.asr.text.script import load_script
from cosyd.asr.text.sentences import as_sentences
from cosyd.config.schema import TextConfig
from cosyd.errors import ConfigError

log = logging.getLogger(__name__)

Step = Callable[[str], str]


class Scribe:
    """Applies steps one after the other. What a text was is the caller's to keep."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = tuple(steps)

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self._steps)

    def write(self, text: str) -> str:
        """``text`` as one would write it. A step that fails leaves the text as it came to it."""
        for step in self._steps:
            try:
                text = step(text)
            except (ValueError, TypeError, RuntimeError, LookupError, AttributeError) as error:
                log.warning("text step %s failed on %r: %r", _name(step), text, error)
        return text


def make_scribe(config: TextConfig) -> Scribe:
    """Raises ModelMissing without a library that is needed, ConfigError for files and hooks."""
    steps: list[Step] = []
    if config.script is not None:
        steps.append(load_script(config.script))
    if config.numbers:
        steps.append(Numbers.load(config.language))
    if config.sentences:
        steps.append(as_sentences)
    words = (*config.mask, *(read_words(Path(config.mask_file)) if config.mask_file else ()))
    if words:
        steps.append(Mask(words))
    if config.hook:
        steps.append(load_hook(config.hook))
    return Scribe(steps)


def load_hook(name: str) -> Step:
    """``package.module:function``, a function from text to text. Raises ConfigError."""
    module, _, function = name.partition(":")
    try:
        hook = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError([f"text.hook: {name}: {error}; write package.module:function"]) from error
    if not callable(hook):
        raise ConfigError([f"text.hook: {name} is no function"])
    return lambda text: str(hook(text))


def _name(step: Step) -> str:
    return getattr(step, "__name__", type(step).__name__)
