"""The files of Moonshine's networks for the processor, made by ``moonshine_growing`` (the encoder) and
``moonshine_lean`` (the decoder) when they are not there.

Apart from it, so that a start that finds them does not load what writes networks (the package onnx).
"""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

from cosyd.engine.moonshine import DECODER, ENCODER
from cosyd.engine.prepared import key_of, prepared

log = logging.getLogger(__name__)

PARTS = ("growing", "decoder")
NAMES = {part: f"lean-{part}" for part in PARTS}


def lean_files(folder: Path) -> dict[str, Path | bytes]:
    """The encoder and the decoder, in this order: where they lie, beside the published files, or what they
    contain, where nothing can be written there. Made the first time. Raises ModelError."""
    files: dict[str, Path | bytes] = {}
    key = key_of((folder / ENCODER, folder / DECODER))
    for part in PARTS:
        try:
            make = partial(_make, part, folder)
            files[part] = prepared(folder, NAMES[part], key, make, beside=NAMES.values())
        except OSError as error:
            log.warning(
                "%s: Moonshine's %s, rewritten, cannot be kept there (%s), so every start takes some seconds "
                "longer; start cosyd once as a user who may write there",
                folder,
                part,
                error.strerror or error,
            )
            files[part] = _make(part, folder)
    return files


def _make(part: str, folder: Path) -> bytes:
    from cosyd.engine import moonshine_growing, moonshine_lean

    return moonshine_growing.encoder(folder) if part == "growing" else moonshine_lean.decoder(folder)
