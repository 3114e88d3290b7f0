"""Moonshine's rewritten networks against the published ones, on real speech."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from cosyd.asr.moonshine_hearing import NOTHING
from cosyd.engine import moonshine_files, moonshine_lean
from cosyd.engine.moonshine import DECODER, ENCODER, LAYERS, cache_names, past, present
from cosyd.engine.ort import OrtEngine, open_ort_cpu
from cosyd.engine.recipe import read_wav
from cosyd.errors import ModelDamaged, ModelMissing

Array = np.ndarray
TOKENS = [1, 450, 338, 263, 1243, 310]
NEARLY = 0.12  # rms of the difference over that of the values; each may be 0.08 away from float32


class Both:
    """The published decoder and ours, over the published encoder's view of a piece of speech."""

    def __init__(self, folder: Path, audio: Array) -> None:
        files = moonshine_files.lean_files(folder)
        self.encoder, self.decoder = (open_ort_cpu(file, name=part) for part, file in files.items())
        self.published = open_ort_cpu(folder / DECODER)
        mask = np.ones((1, audio.size), np.int64)
        with open_ort_cpu(folder / ENCODER) as encoder:
            feeds = {"input_values": audio[None], "attention_mask": mask}
            hidden = encoder.run(feeds)["last_hidden_state"]
        self._fixed = {"encoder_hidden_states": hidden, "encoder_attention_mask": mask}
        empty = np.zeros((1, 8, 0, 36), np.float32)
        self.nothing = {past(name): empty for name in (*cache_names("decoder"), *cache_names("encoder"))}
        self.heard = {
            past(name): self._published([TOKENS], self.nothing, False)[present(name)]
            for name in cache_names("encoder")
        }

    def ours(self, tokens: Sequence[Sequence[int]], said: Mapping[str, Array]) -> dict[str, Array]:
        cache = {past(name): said[past(name)] for name in cache_names("decoder")}
        return self.decoder.run({"input_ids": np.array(tokens), **cache, **self.heard})

    def theirs(self, tokens: Sequence[Sequence[int]], said: Mapping[str, Array]) -> dict[str, Array]:
        begun = said[past("0.decoder.key")].shape[2] > 0
        return self._published(tokens, {**said, **self.heard} if begun else said, begun)

    def _published(
        self, tokens: Sequence[Sequence[int]], cache: Mapping[str, Array], begun: bool
    ) -> dict[str, Array]:
        flag = {"use_cache_branch": np.array([begun])}
        return self.published.run({"input_ids": np.array(tokens), **flag, **self._fixed, **cache})


@pytest.fixture(scope="module")
def folder(models_dir: Path) -> Path:
    return models_dir / "moonshine-tiny-en"


@pytest.fixture(scope="module")
def speech(models_dir: Path) -> Array:
    return read_wav(models_dir / "demo-speech" / "beckett.wav")[: 4 * 16_000]


@pytest.fixture(scope="module")
def both(folder: Path, speech: Array) -> Both:
    return Both(folder, speech)


def test_a_beginning_of_several_tokens_is_the_published_one(both: Both) -> None:
    ours, theirs = both.ours([TOKENS], both.nothing), both.theirs([TOKENS], both.nothing)
    np.testing.assert_allclose(ours["logits"], theirs["logits"], atol=1e-3)
    for name in cache_names("decoder"):
        np.testing.assert_allclose(ours[present(name)], theirs[present(name)], atol=1e-4)


@pytest.mark.parametrize("rows", [1, 3])
def test_one_token_more_for_each_row_of_a_cache_is_the_published_one(both: Both, rows: int) -> None:
    begun = both.theirs([TOKENS], both.nothing)
    said = {past(name): np.repeat(begun[present(name)], rows, axis=0) for name in cache_names("decoder")}
    tokens = [[500 + row] for row in range(rows)]
    ours, theirs = both.ours(tokens, said), both.theirs(tokens, said)
    np.testing.assert_allclose(ours["logits"], theirs["logits"], atol=1e-3)
    np.testing.assert_allclose(ours["present.5.decoder.key"], theirs["present.5.decoder.key"], atol=1e-4)


def test_tokens_at_once_and_one_after_the_other_leave_the_same_cache(both: Both) -> None:
    at_once = both.ours([TOKENS], both.nothing)
    said = dict(both.nothing)
    for token in TOKENS:
        step = both.ours([[token]], said)
        said |= {past(name): step[present(name)] for name in cache_names("decoder")}
    # Not to the last bit: 8 bits are spread over what comes in one run.
    assert _distance(said[past("5.decoder.key")], at_once["present.5.decoder.key"]) < NEARLY


def test_where_it_looks_is_a_distribution_over_the_frames(both: Both) -> None:
    ours = both.ours([TOKENS], both.nothing)
    frames = both.heard[past("0.encoder.key")].shape[2]
    for layer in range(LAYERS):
        looks = ours[f"attention.{layer}"]
        assert looks.shape == (1, 8, len(TOKENS), frames)
        np.testing.assert_allclose(looks.sum(-1), 1, atol=1e-5)


def test_the_encoder_gives_what_the_published_decoder_makes_of_the_published_encoder(
    both: Both, speech: Array
) -> None:
    found = NOTHING.encoded(both.encoder, speech)
    for name in cache_names("encoder"):
        assert _distance(found[present(name)], both.heard[past(name)]) < NEARLY


def _distance(found: Array, expected: Array) -> float:
    return float(np.sqrt(np.mean(np.square(found - expected)) / np.mean(np.square(expected))))


# --- files -------------------------------------------------------------------------------------------------


def test_what_is_made_is_kept_readable_for_all_beside_the_published_files(folder: Path) -> None:
    files = moonshine_files.lean_files(folder)
    for part, path in files.items():
        assert isinstance(path, Path)
        assert path.parent == folder and path.name.startswith(f"lean-{part}-")
        assert path.stat().st_mode & 0o444 == 0o444
    assert moonshine_files.lean_files(folder) == files


def test_where_nothing_can_be_written_they_are_made_for_this_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def closed(*args: object, **options: object) -> Path:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(moonshine_files, "prepared", closed)
    with caplog.at_level(logging.WARNING):
        files = moonshine_files.lean_files(folder)
    assert all("Read-only file system" in record.getMessage() for record in caplog.records) and caplog.records
    assert isinstance(files["decoder"], bytes)
    with open_ort_cpu(files["decoder"], name="decoder") as engine:
        assert isinstance(engine, OrtEngine) and engine.inputs[0].name == "input_ids"


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="cosyd models pull"):
        moonshine_files.lean_files(tmp_path)


def test_another_network_is_damaged(tmp_path: Path, folder: Path, models_dir: Path) -> None:
    (tmp_path / ENCODER).symlink_to(folder / ENCODER)
    (tmp_path / DECODER).symlink_to(folder / ENCODER)
    with pytest.raises(ModelDamaged, match="cosyd models verify"):
        moonshine_lean.decoder(tmp_path)
    assert not list(tmp_path.glob("lean-*"))


def test_a_start_that_finds_them_does_not_load_what_writes_networks(folder: Path) -> None:
    moonshine_files.lean_files(folder)
    program = (
        "import sys; from pathlib import Path; from cosyd.asr.moonshine_networks import open_on_processor; "
        f"open_on_processor(Path({str(folder)!r}), 'tiny').close(); print('onnx' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "False"
