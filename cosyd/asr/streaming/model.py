"""A streaming model, loaded: its networks, the family's description, its tokens and the search."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np

from cosyd.asr.confidence import Calibration
from cosyd.asr.decoders.ctc_beam import CtcBeam
from cosyd.asr.decoders.ctc_greedy import CtcGreedy
from cosyd.asr.decoders.hypothesis import StreamDecoder
from cosyd.asr.decoders.language_model import LanguageModel
from cosyd.asr.decoders.transducer_beam import TransducerBeam
from cosyd.asr.decoders.transducer_greedy import TransducerGreedy
from cosyd.asr.streaming.families import describe
from cosyd.asr.streaming.folder import CPU_ORDER, ModelFolder, Precision, open_folder
from cosyd.asr.streaming.metadata import Metadata
from cosyd.asr.streaming.networks import Networks
from cosyd.asr.streaming.ports import Ports
from cosyd.asr.streaming.precision import choose_precision
from cosyd.asr.streaming.spec import EncoderSpec
from cosyd.asr.streaming.tokens import Tokens, read_tokens
from cosyd.engine.protocol import Engine
from cosyd.errors import ModelDamaged

OpenEngine = Callable[[Path], Engine]

LANGUAGE_PATHS = 8  # followed where a language model chooses, and nobody asked for more


@dataclass(frozen=True)
class Search:
    """How to decode. ``paths``: hypotheses followed at a time, 1 is greedy; ``hotword_paths``: the same for
    streams with hotwords, which a greedy search could not favour."""

    paths: int = 1
    hotword_paths: int = 4
    blank_penalty: float = 0.0


class StreamingModel:
    """Owns its engines; whoever loads it closes it."""

    def __init__(
        self,
        folder: ModelFolder,
        encoder: Engine,
        spec: EncoderSpec,
        tokens: Tokens,
        networks: Networks | None,
        precision: str = "",
    ) -> None:
        """``precision``: which of the folder's, and why."""
        self.folder = folder
        self.precision = precision or folder.precision
        self.encoder = encoder
        self.spec = spec
        self.tokens = tokens
        self.networks = networks
        self.calibration = Calibration.of(folder.path)
        self.language_model: LanguageModel | None = None
        self._engines = ExitStack()

    @classmethod
    def load(
        cls,
        path: Path,
        open_engine: OpenEngine | None = None,
        *,
        precision: Precision | Literal["auto"] | None = None,
        threads: int = 1,
        streams: int = 1,
    ) -> StreamingModel:
        """From a folder. ``precision``: preferred to others that are there; ``auto``: the fastest here for so
        many ``streams``; None: what is the fastest on most processors.

        Raises ModelMissing or ModelDamaged, in one line, for what is no streaming model that cosyd can run.
        """
        first = () if precision in (None, "auto") else (precision,)
        folder = open_folder(path, (*first, *CPU_ORDER))
        opener = open_engine or (lambda file: _open_cpu(file, threads))
        with ExitStack() as engines:
            if precision == "auto" and len(folder.encoders) > 1:
                chosen = choose_precision(folder.encoders, opener, partial(_described, folder), streams)
                # the joiner, too: the text is that of this precision named, and on a GPU no part is in 8 bits
                folder = open_folder(path, (chosen.precision, *CPU_ORDER))
                encoder, told = chosen.engine, chosen.reason
            else:
                encoder, told = opener(folder.encoder), _told(folder, precision)
            engines.enter_context(encoder)
            spec = _described(folder, encoder)
            tokens = read_tokens(folder.tokens)
            networks = None
            if folder.decoder is not None and folder.joiner is not None:
                parts = [engines.enter_context(opener(file)) for file in (folder.decoder, folder.joiner)]
                networks = Networks(parts[0], parts[1], tokens.unknown)
            model = cls(folder, encoder, spec, tokens, networks, told)
            model._check_width()
            model._engines = engines.pop_all()
            return model

    def _check_width(self) -> None:
        """Tokens for all that the network can say."""
        if self.networks is not None:
            width: int | str = self.networks.vocabulary
        else:
            output = next(o for o in self.encoder.outputs if o.name == self.spec.output)
            width = output.shape[-1]
            if not self.tokens.named_blank and self.spec.family != "cosyd-ctc":
                raise ModelDamaged(f"{self.folder.tokens}: has no <blk>, <blank> or <eps>, which CTC needs")
        if isinstance(width, int) and width != len(self.tokens):
            raise ModelDamaged(
                f"{self.folder.tokens}: has {len(self.tokens)} symbols, the network {width}; one is another's"
            )

    def search(self, paths: int, blank_penalty: float = 0.0) -> StreamDecoder[Any]:
        """A search over this model's scores. A language model needs several paths to choose from."""
        blank, lm = self.tokens.blank, self.language_model
        if lm is not None:
            paths = max(paths, LANGUAGE_PATHS)
        if self.networks is None:
            greedy = paths == 1
            return CtcGreedy(blank=blank) if greedy else CtcBeam(beam=paths, blank=blank, language_model=lm)
        if paths == 1:
            return TransducerGreedy(self.networks, blank_penalty=blank_penalty)
        return TransducerBeam(self.networks, beam=paths, blank_penalty=blank_penalty, language_model=lm)

    def close(self) -> None:
        """Idempotent."""
        self._engines.close()

    def __enter__(self) -> StreamingModel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _described(folder: ModelFolder, engine: Engine) -> EncoderSpec:
    """What an encoder of the folder is. Raises ModelDamaged."""
    meta = Metadata(engine.name, engine.metadata)
    return describe(meta, Ports(engine.name, engine.inputs, engine.outputs), folder.filters)


def _told(folder: ModelFolder, wanted: str | None) -> str:
    if wanted in (None, "auto", folder.precision):
        return folder.precision
    return f"{folder.precision}, as there is no {wanted} file in the folder"


def _open_cpu(file: Path, threads: int) -> Engine:
    from cosyd.engine.ort import open_streams_cpu

    return open_streams_cpu(file, threads=threads)


def silence(samples: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.zeros(samples, np.float32)
