"""sherpa-onnx, as the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Audio = NDArray[np.float32]
PIECE = 1_600


@dataclass(frozen=True)
class Found:
    """Tokens as text and their times in seconds."""

    tokens: list[str]
    times: list[float]


Oracle = Callable[..., Found]


def make_recognizer(folder: Path, family: str, **options: Any) -> Any:
    import sherpa_onnx

    kinds = sherpa_onnx.OnlineRecognizer
    common = {"tokens": str(folder / "tokens.txt"), "num_threads": 1, **options}
    ctc = {
        "zipformer2-ctc": kinds.from_zipformer2_ctc,
        "wenet-ctc": kinds.from_wenet_ctc,
        "nemo-ctc": kinds.from_nemo_ctc,
    }
    if family in ctc:
        return ctc[family](model=str(next(folder.glob("*.onnx"))), **common)
    parts = {role: str(next(folder.glob(f"{role}*.onnx"))) for role in ("encoder", "decoder", "joiner")}
    return kinds.from_transducer(**parts, **common)


def transcribe(recognizer: Any, clip: Audio, tail: int, hotwords: str | None = None) -> Found:
    """``tail``: samples of silence after the clip."""
    stream = recognizer.create_stream() if hotwords is None else recognizer.create_stream(hotwords=hotwords)
    audio = np.concatenate([clip, np.zeros(tail, np.float32)])
    for start in range(0, len(audio), PIECE):
        stream.accept_waveform(16_000, audio[start : start + PIECE])
        while recognizer.is_ready(stream):
            recognizer.decode_stream(stream)
    return Found(list(recognizer.tokens(stream)), list(recognizer.timestamps(stream)))
