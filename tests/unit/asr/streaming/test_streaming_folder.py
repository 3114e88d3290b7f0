"""Folders that are no streaming model, or a damaged one, are told in one line what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import streaming_graphs as graphs
import streaming_models as small

from cosyd.asr.streaming.folder import open_folder
from cosyd.asr.streaming.model import StreamingModel
from cosyd.errors import CosydError, ModelDamaged, ModelMissing


def refused(folder: Path, kind: type[CosydError], *words: str) -> None:
    with pytest.raises(kind) as caught:
        StreamingModel.load(folder)
    message = str(caught.value)
    assert "\n" not in message
    for word in (str(folder), *words):
        assert word in message


def edit(file: Path, change: Callable[[onnx.ModelProto], None]) -> None:
    model = onnx.load(file)
    change(model)
    onnx.save(model, file)


def set_metadata(file: Path, **values: str | None) -> None:
    def change(model: onnx.ModelProto) -> None:
        metadata = {p.key: p.value for p in model.metadata_props} | values
        del model.metadata_props[:]
        onnx.helper.set_model_props(model, {k: v for k, v in metadata.items() if v is not None})

    edit(file, change)


@pytest.fixture
def transducer(tmp_path: Path) -> Path:
    return small.save_transducer(tmp_path / "model", "zipformer2")


def encoder(folder: Path) -> Path:
    return next(folder.glob("encoder*"))


def test_what_is_no_folder_of_a_model(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", ModelMissing, "no such folder")
    refused(tmp_path, ModelMissing, "tokens.txt")
    small.save_tokens(tmp_path / "tokens.txt")
    refused(tmp_path, ModelMissing, ".onnx")


def test_parts_that_are_missing(transducer: Path) -> None:
    next(transducer.glob("joiner*")).unlink()
    refused(transducer, ModelMissing, "joiner*.onnx")


def test_two_models_in_one_folder(transducer: Path) -> None:
    graphs.save_encoder(transducer / "encoder-epoch-30-avg-4.onnx", small.zipformer2(), ctc=False)
    refused(transducer, ModelDamaged, "more than one encoder", "encoder-epoch-30-avg-4")


def test_the_usual_int8_set_is_preferred(transducer: Path) -> None:
    for role in ("encoder", "decoder", "joiner"):
        file = next(transducer.glob(f"{role}*"))
        file.with_suffix(".int8.onnx").write_bytes(file.read_bytes())
    folder = open_folder(transducer)
    names = [file.name for file in (folder.encoder, folder.decoder, folder.joiner) if file]
    assert [name.endswith(".int8.onnx") for name in names] == [True, False, True]
    assert not open_folder(transducer, ("fp32", "int8")).encoder.name.endswith(".int8.onnx")


@pytest.mark.parametrize("key", ["T", "decode_chunk_len", "encoder_dims", "left_context_len"])
def test_metadata_that_is_missing_is_named(transducer: Path, key: str) -> None:
    set_metadata(encoder(transducer), **{key: None})
    refused(transducer, ModelDamaged, f"no {key}")


def test_metadata_that_makes_no_sense(transducer: Path) -> None:
    set_metadata(encoder(transducer), T="many")
    refused(transducer, ModelDamaged, "T='many'")
    set_metadata(encoder(transducer), T="16")
    refused(transducer, ModelDamaged, "T=16", "decode_chunk_len=32")


def test_metadata_of_another_model(transducer: Path) -> None:
    set_metadata(encoder(transducer), left_context_len="8,9")
    refused(transducer, ModelDamaged, "cached_key_1", "9")
    set_metadata(encoder(transducer), left_context_len="8,4", num_encoder_layers="1,1")
    refused(transducer, ModelDamaged, "embed_states")


@pytest.mark.parametrize("model_type", ["paraformer", None])
def test_families_that_cosyd_does_not_run(transducer: Path, model_type: str | None) -> None:
    set_metadata(encoder(transducer), model_type=model_type)
    refused(transducer, ModelDamaged, model_type or "no model_type", "zipformer2", "wenet-ctc")


def test_features_that_cosyd_does_not_compute(transducer: Path) -> None:
    set_metadata(encoder(transducer), feature="whisper")
    refused(transducer, ModelDamaged, "whisper")


def test_a_decoder_without_its_context(transducer: Path) -> None:
    set_metadata(next(transducer.glob("decoder*")), context_size=None)
    refused(transducer, ModelDamaged, "context_size")


def test_tokens_of_another_model(transducer: Path) -> None:
    small.save_tokens(transducer / "tokens.txt", graphs.VOCABULARY - 1)
    refused(transducer, ModelDamaged, "39 symbols", "40")


@pytest.mark.parametrize(
    ("line", "words"),
    [("only-a-symbol", "tokens.txt:41"), ("twice 3", "tokens.txt:41"), ("far 99", "0 to 40")],
)
def test_lines_of_tokens_that_are_none(transducer: Path, line: str, words: str) -> None:
    with (transducer / "tokens.txt").open("a") as file:
        file.write(line + "\n")
    refused(transducer, ModelDamaged, words)


def test_a_ctc_vocabulary_without_a_blank(tmp_path: Path) -> None:
    folder = small.save_zipformer2_ctc(tmp_path / "model")
    tokens = folder / "tokens.txt"
    tokens.write_text(tokens.read_text().replace("<blk>", "blk"))
    refused(folder, ModelDamaged, "<blk>")


def test_a_file_that_is_no_network(transducer: Path) -> None:
    encoder(transducer).write_bytes(b"nothing of the kind")
    refused(transducer, ModelDamaged, "cannot be loaded")


def test_numbers_may_be_32_bit(tmp_path: Path, voices: list[np.ndarray]) -> None:
    """k2's own test script writes them so."""
    from cosyd.asr.streaming.streams import Streams

    found = []
    for kind in (onnx.TensorProto.INT64, onnx.TensorProto.INT32):
        folder = small.save_transducer(tmp_path / str(kind), "conformer")
        conformer = small.conformer()
        conformer.processed_kind = kind
        graphs.save_encoder(encoder(folder), conformer, ctc=False)
        graphs.save_decoder(next(folder.glob("decoder*")), kind=kind)
        with StreamingModel.load(folder) as model:
            streams = Streams(model)
            slot = streams.open()
            streams.push(slot, voices[0])
            streams.run([slot])
            found.append(streams.n_best(slot)[0].tokens)
    assert found[0] == found[1] != ()
