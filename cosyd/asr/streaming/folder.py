"""The files of a streaming model, found in a folder as people have it.

The names are those of icefall's and sherpa-onnx's exports: ``encoder*.onnx``, ``decoder*.onnx`` and
``joiner*.onnx`` for a transducer, one ``model*.onnx`` (or any other single name) for a CTC model, with
``.int8`` or ``.fp16`` before the extension for the smaller files; and ``tokens.txt``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cosyd.errors import ModelDamaged, ModelMissing

Precision = Literal["int8", "fp16", "fp32"]
# On a CPU int8 is the fastest and float16 is computed in float32, from half the file.
CPU_ORDER: tuple[Precision, ...] = ("int8", "fp32", "fp16")
TOKENS = "tokens.txt"
_PART = re.compile(r"^(?P<stem>.+?)(?:[.-](?P<precision>int8|fp16|fp32))?\.onnx$")
_TRANSDUCER = ("encoder", "decoder", "joiner")


@dataclass(frozen=True)
class ModelFolder:
    """``encoder`` is the whole network of a CTC model; then ``decoder`` and ``joiner`` are None.

    ``filters`` is the mel matrix of cosyd's own format. ``encoders``: all precisions that ``encoder`` was
    chosen from.
    """

    path: Path
    encoder: Path
    tokens: Path
    decoder: Path | None = None
    joiner: Path | None = None
    filters: Path | None = None
    encoders: Mapping[Precision, Path] = field(default_factory=dict)

    @property
    def precision(self) -> Precision:
        """Of ``encoder``, as its name says; fp32 where it says nothing."""
        return next((each for each, file in self.encoders.items() if file == self.encoder), "fp32")

    @property
    def kind(self) -> Literal["transducer", "ctc"]:
        return "ctc" if self.joiner is None else "transducer"


def open_folder(path: Path, order: Sequence[Precision] = CPU_ORDER) -> ModelFolder:
    """Look at the names in a folder; nothing is loaded. ``order``: which precision is preferred.

    Of a decoder, which is tiny, the float32 file is taken as the usual sets do. Raises ModelMissing or
    ModelDamaged, with what was looked for.
    """
    if not path.is_dir():
        raise ModelMissing(f"{path}: no such folder; asr.model takes the folder of a model")
    if not (path / TOKENS).is_file():
        raise ModelMissing(f"{path}: no {TOKENS} in it; it is no folder of a streaming model")
    networks = sorted(file for file in path.iterdir() if _PART.match(file.name))
    parts = {role: [file for file in networks if role in file.name.lower()] for role in _TRANSDUCER}
    if parts["decoder"] or parts["joiner"]:
        _complete(path, parts)
        encoders, decoders, joiners = (_variants(path, role, parts[role]) for role in _TRANSDUCER)
        decoder, joiner = _preferred(decoders, ("fp32", "fp16", "int8")), _preferred(joiners, order)
        return ModelFolder(path, _preferred(encoders, order), path / TOKENS, decoder, joiner, None, encoders)
    if not networks:
        raise ModelMissing(f"{path}: no .onnx file in it; it is no folder of a streaming model")
    models = _variants(path, "model", networks)
    filters = _optional(path / "mel_filters.npy")
    return ModelFolder(path, _preferred(models, order), path / TOKENS, filters=filters, encoders=models)


def _optional(file: Path) -> Path | None:
    return file if file.is_file() else None


def _complete(path: Path, parts: dict[str, list[Path]]) -> None:
    missing = [role for role in _TRANSDUCER if not parts[role]]
    if missing:
        names = ", ".join(f"{role}*.onnx" for role in missing)
        raise ModelMissing(f"{path}: no {names} in it; a transducer needs encoder, decoder and joiner")


def _variants(path: Path, role: str, files: Sequence[Path]) -> dict[Precision, Path]:
    """The files of one part by their precision. Raises ModelDamaged when there are two models."""
    stems: dict[str, dict[Precision, Path]] = {}
    for file in files:
        match = _PART.match(file.name)
        assert match is not None
        precision: Precision = next((each for each in CPU_ORDER if each == match["precision"]), "fp32")
        stems.setdefault(match["stem"], {})[precision] = file
    if len(stems) > 1:
        names = ", ".join(sorted(stems))
        raise ModelDamaged(f"{path}: more than one {role} in it ({names}); leave one in the folder")
    (variants,) = stems.values()
    return variants


def _preferred(variants: Mapping[Precision, Path], order: Sequence[Precision]) -> Path:
    return next(variants[precision] for precision in order if precision in variants)
