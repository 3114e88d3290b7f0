"""The last word is said, wherever in a chunk the audio ends: the padding follows from the metadata.

The model of these tests says one token for each of the feature frames that are loud, so what is said tells
which frames were heard with all their look-ahead. Field case 11.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import streaming_graphs as graphs
import streaming_models as small

from cosyd.asr.streaming.model import StreamingModel
from cosyd.asr.streaming.streams import Streams

HOP = 160


def loud_frames_model(folder: Path, window: int, chunk: int) -> Path:
    """Output frame i is token 1 or 2, by turns, where feature frame 4i is loud, else blank."""
    folder.mkdir()
    e = small.zipformer2(chunk)
    e.window, e.output, e.metadata["T"] = window, "log_probs", str(window)
    g = graphs.Graph(np.random.default_rng(0))
    first = g.op("Slice", "x", g.ints(0), g.ints(chunk), g.ints(1), g.ints(4))
    level = g.op("ReduceMean", first, axes=[2], keepdims=1)  # [N, chunk / 4, 1]
    loud = g.op("Cast", g.op("Greater", level, g.constant(np.float32(-8.0))), to=onnx.TensorProto.FLOAT)
    turns = np.zeros((1, chunk // 4, graphs.VOCABULARY), np.float32)
    turns[0, ::2, 1] = turns[0, 1::2, 2] = 20
    quiet = np.zeros(graphs.VOCABULARY, np.float32)
    quiet[0] = 10
    g.op("Add", g.op("Mul", loud, g.constant(turns)), g.constant(quiet), output="log_probs")
    for state in e.states:
        g.op("Identity", state.source, output=state.target)
    inputs = [graphs.value_info("x", onnx.TensorProto.FLOAT, ["N", window, 80])]
    inputs += [graphs.value_info(s.source, s.kind, s.shape) for s in e.states]
    outputs = [graphs.value_info("log_probs", onnx.TensorProto.FLOAT, ["N", "frames", graphs.VOCABULARY])]
    outputs += [graphs.value_info(s.target, s.kind, s.shape) for s in e.states]
    graphs.save_graph(folder / "model.onnx", g, inputs, outputs, e.metadata)
    small.save_tokens(folder / "tokens.txt")
    return folder


@pytest.mark.parametrize(("window", "chunk"), [(141, 128), (45, 32)])
def test_the_last_frame_is_heard_wherever_the_audio_ends(window: int, chunk: int, tmp_path: Path) -> None:
    folder = loud_frames_model(tmp_path / "model", window, chunk)
    noise = np.random.default_rng(1).standard_normal(4 * chunk * HOP).astype(np.float32) * 0.3
    with StreamingModel.load(folder) as model:
        streams = Streams(model)
        for frames in range(2 * chunk, 3 * chunk + 1):
            slot = streams.open()
            streams.push(slot, noise[: frames * HOP])
            streams.run([slot])
            streams.end(slot)
            streams.run([slot])
            last = streams.n_best(slot)[0].frames[-1]
            streams.close(slot)
            # The last output frame that begins inside the audio; the one after may hear its end.
            assert last - (frames - 1) // 4 in (0, 1), frames


def test_the_padding_is_no_longer_than_needed(tmp_path: Path) -> None:
    """1.41 s for T=141 and decode_chunk_len=128, at most, and the time in which a model may still speak."""
    folder = loud_frames_model(tmp_path / "model", 141, 128)
    with StreamingModel.load(folder) as model:
        tails = [Streams(model).tail_samples(samples) for samples in range(16_000, 16_000 + 128 * HOP, 37)]
    assert max(tails) <= (141 + 128 + 32 + 2) * HOP
    assert min(tails) >= 32 * HOP
