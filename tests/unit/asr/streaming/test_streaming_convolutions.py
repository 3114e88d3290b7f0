"""A zipformer2 with all its convolutions, which are rewritten when it is loaded, beside sherpa-onnx, which
reads the file as it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cosyd.asr.streaming.recognizer import CachedStateRecognizer
from cosyd.bench.streaming_model import Size, save_ctc
from cosyd.engine.depthwise import with_quick_convolutions

sherpa_onnx = pytest.importorskip("sherpa_onnx", reason="needs the test extra")

SECONDS = 1.5


def test_the_same_tokens_for_one_stream_and_for_several(
    voices: list[NDArray[np.float32]], tmp_path: Path
) -> None:
    folder = save_ctc(tmp_path / "model", Size(layers=3, dim=64, heads=2))
    assert isinstance(with_quick_convolutions(folder / "model.onnx"), bytes)
    clips = [voice[: int(SECONDS * 16_000)] for voice in voices if len(voice) > SECONDS * 16_000][:4]
    peer = sherpa_onnx.OnlineRecognizer.from_zipformer2_ctc(
        tokens=str(folder / "tokens.txt"), model=str(folder / "model.onnx"), num_threads=1
    )
    wanted = []
    for clip in clips:
        stream = peer.create_stream()
        stream.accept_waveform(16_000, clip)
        while peer.is_ready(stream):
            peer.decode_stream(stream)
        wanted.append(list(peer.tokens(stream)))
    assert sum(map(len, wanted)) > 20
    recognizer = CachedStateRecognizer.load(folder, name="small", capacity=len(clips))
    pieces = recognizer.streams.model.tokens.pieces
    for together in (clips[:1], clips):
        slots = [recognizer.open() for _ in together]
        found = recognizer.accept(slots, together)
        for slot in slots:
            recognizer.streams.close(slot)
        said = [[pieces[token].replace("▁", " ") for token in each.tokens] for each in found]
        assert said == wanted[: len(together)]
    recognizer.close()
