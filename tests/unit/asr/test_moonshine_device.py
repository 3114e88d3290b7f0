"""Moonshine over bound memory says what the published networks say: on ONNX Runtime, over memory of the host,
and through the fake of TensorRT's API, which is as strict as the library about shapes and profiles."""

from __future__ import annotations

import sys
import wave
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from annotated_types import Le

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "engine"))

from fake_engine import LIBRARIES
from faulty import Faulty, Switch

from cosyd.asr.hotwords import Hotword
from cosyd.asr.moonshine import Moonshine
from cosyd.asr.moonshine_beam import FAVOURED
from cosyd.asr.moonshine_device import DeviceNetworks
from cosyd.asr.recognizer import SegmentRequest
from cosyd.asr.tokenizer import Tokenizer
from cosyd.config.schema import AsrConfig
from cosyd.engine.compile import BuildRequest, compile_plan
from cosyd.engine.golden import Best
from cosyd.engine.library import load_library
from cosyd.engine.managed import ManagedEngine
from cosyd.engine.memory import HostMemory
from cosyd.engine.moonshine import (
    LAYERS,
    ROWS,
    WINDOW,
    DecoderFeeds,
    Parts,
    cache_names,
    frames_of,
    moonshine,
    present,
)
from cosyd.engine.network import Network
from cosyd.engine.ort import open_ort_cpu
from cosyd.engine.protocol import Engine
from cosyd.engine.tensors import Misuse
from cosyd.engine.trt import TrtEngine
from cosyd.types import Transcript

Open = Callable[[Network], Engine]


@pytest.fixture(scope="module")
def folder(models_dir: Path) -> Path:
    return models_dir / "moonshine-tiny-en"


@pytest.fixture(scope="module")
def beckett(models_dir: Path) -> np.ndarray:
    path = models_dir / "demo-speech" / "beckett.wav"
    if not path.is_file():
        pytest.skip(f"no {path}")
    with wave.open(str(path)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    return samples.astype(np.float32) / 32_768


@pytest.fixture(scope="module")
def parts(folder: Path, beckett: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Parts:
    cache = tmp_path_factory.mktemp("onnx")
    made = moonshine(folder, cache, beckett)
    assert len(list(cache.iterdir())) == 3
    return made


@pytest.fixture(scope="module")
def published(folder: Path) -> Moonshine:
    return Moonshine.load(folder, beam=4)


def on_ort(network: Network) -> Engine:
    return open_ort_cpu(network.model, name=network.name)


def on_fake_tensorrt(network: Network) -> Engine:
    request = BuildRequest(network.name, network.onnx(), network.profiles, libraries=LIBRARIES)
    plan = compile_plan(request)
    return TrtEngine(load_library(LIBRARIES), plan, HostMemory(), name=network.name, reason="test")


def opened(folder: Path, parts: Parts, how: Open, beam: int = 4) -> Moonshine:
    networks = DeviceNetworks(*map(how, (parts.encoder, parts.first, parts.following)))
    return Moonshine("tiny", networks, Tokenizer.load(folder / "tokenizer.bin"), beam=beam)


@pytest.fixture(scope="module")
def device(folder: Path, parts: Parts) -> Moonshine:
    return opened(folder, parts, on_ort)


def text(model: Moonshine, request: SegmentRequest) -> Transcript:
    return model.transcribe([request])[0]


def test_the_networks_have_the_tensors_that_are_bound(parts: Parts) -> None:
    with on_ort(parts.first) as first, on_ort(parts.following) as following:
        made = {spec.name: spec.shape for spec in first.outputs}
        taken = {spec.name: spec.shape for spec in following.inputs}
        assert taken["past_key_values.0.encoder.key"] == (1, 8, "frames", 36)
        assert taken["past_key_values.5.decoder.value"] == ("beam", 8, "past", 36)
        assert made["attention.5"] == (1, 8, "tokens", "frames")
        assert {spec.name for spec in following.outputs} == {
            "logits", *map(present, cache_names("decoder", LAYERS))
        }  # fmt: skip


@pytest.mark.parametrize("samples", [1_600, 16_000, 80_000, 123_457, 480_000])
def test_frames_are_counted_as_the_encoder_makes_them(parts: Parts, samples: int) -> None:
    assert frames_of(1_600) == 2
    if samples > 20_000:
        assert {80_000: 207, 123_457: 320, 480_000: 1_248}[samples] == frames_of(samples)
        return
    with on_ort(parts.encoder) as encoder:
        heard = encoder.run({"input_values": np.zeros((1, samples), np.float32)})
    assert heard["present.0.encoder.key"].shape[2] == frames_of(samples)


@pytest.mark.parametrize("quick", [True, False], ids=["greedy", "beam"])
def test_it_says_what_the_published_networks_say(
    device: Moonshine, published: Moonshine, beckett: np.ndarray, quick: bool
) -> None:
    """Activations are not rounded to 8 bits, so values differ a little and texts do not."""
    request = SegmentRequest(beckett, quick=quick, words=not quick)
    ours, theirs = text(device, request), text(published, request)
    assert (ours.text, ours.tokens) == (theirs.text, theirs.tokens)
    assert ours.conf == pytest.approx(theirs.conf, abs=0.1)
    if not quick:
        assert [word.w for word in ours.words] == [word.w for word in theirs.words]
        assert [word.end for word in ours.words] == pytest.approx([w.end for w in theirs.words], abs=0.1)


def test_drafts_promises_and_hotwords_work_alike(
    device: Moonshine, published: Moonshine, beckett: np.ndarray
) -> None:
    whole = text(published, SegmentRequest(beckett[:64_000], quick=True))
    other = (*whole.tokens[:4], *whole.tokens[:3])
    half = beckett[:48_000]
    requests = [
        SegmentRequest(half, draft=whole.tokens, quick=True),
        SegmentRequest(half, draft=other, quick=True),
        SegmentRequest(half, "Ever cried.", quick=True),
        SegmentRequest(half, hotwords=(Hotword("cappuccino"),)),
    ]
    ours, theirs = device.transcribe(requests), published.transcribe(requests)
    assert [spoken(each) for each in ours] == [spoken(each) for each in theirs]


def spoken(result: Transcript) -> list[str]:
    """A comma may hang on a rounding."""
    return "".join(c for c in result.text.lower() if c.isalpha() or c == " ").split()


def test_lengths_may_come_in_any_order(device: Moonshine, beckett: np.ndarray) -> None:
    """Buffers are replaced by larger ones; what is behind the end of a shorter one is not heard."""
    lengths = (8_000, 30_000, 16_000)
    first = [text(device, SegmentRequest(beckett[:n], quick=True)).tokens for n in lengths]
    again = [text(device, SegmentRequest(beckett[:n], quick=True)).tokens for n in lengths]
    assert first == again


def test_tensorrt_s_api_is_used_as_it_demands(
    folder: Path, parts: Parts, device: Moonshine, beckett: np.ndarray
) -> None:
    request = SegmentRequest(beckett[:16_000], words=True)
    on_plans = opened(folder, parts, on_fake_tensorrt)
    assert text(on_plans, request) == text(device, request)
    with pytest.raises(Misuse, match="compiled for"):
        on_plans.transcribe([SegmentRequest(np.zeros(31 * 16_000, np.float32))])
    on_plans.close()


def test_a_fault_in_the_middle_of_an_utterance_changes_nothing(
    folder: Path, parts: Parts, device: Moonshine, beckett: np.ndarray
) -> None:
    """Field case 29. Caches are in the user's buffers: the step is done again on the network opened anew."""
    switches: list[Switch] = []

    def managed(network: Network) -> Engine:
        switch = Switch()
        switches.append(switch)

        def reopen() -> Engine:
            return Faulty(on_ort(network), switch)  # type: ignore[return-value]

        return ManagedEngine(reopen(), reopen, lambda: on_ort(network))

    short = SegmentRequest(beckett[:24_000])
    model = opened(folder, parts, managed)
    expected = text(device, short)
    switches[2].once = True
    assert text(model, short) == expected
    assert [switch.opened for switch in switches] == [1, 1, 2]
    model.close()


def test_another_precision_is_checked_by_what_it_says(parts: Parts, beckett: np.ndarray) -> None:
    assert parts.encoder.golden is not None
    golden = replace(parts.encoder.golden, audio=beckett[:WINDOW])
    with on_ort(parts.encoder) as engine:
        assert golden.fault(engine, engine) is None
        assert "off by" in str(golden.fault(_Off(engine), engine))  # type: ignore[arg-type]
    heard = DecoderFeeds(
        Path(str(parts.encoder.model)), Path(str(parts.first.model)), tokens=2, following=True
    )
    with on_ort(parts.following) as engine:
        outputs = engine.run(heard(beckett[None, :WINDOW]))
    best, same = Best("logits"), [{"logits": outputs["logits"]}]
    assert best.difference(same, same) is None
    changed = outputs["logits"].copy()
    changed[0, 0, 7] = changed.max() + 1
    assert best.difference(same, [{"logits": changed}]) == "the best of logits differs in step 0"
    close = outputs["logits"].copy()
    close[0, 0, 7] = close.max() - 0.01
    assert best.difference([{"logits": close}], [{"logits": changed}]) is None, "a coin's choice"


class _Off:
    """An engine whose results are half noise."""

    def __init__(self, engine: Engine) -> None:
        self.inputs, self._engine = engine.inputs, engine
        self._rng = np.random.default_rng(0)

    def run(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        outputs = self._engine.run(feeds)
        return {
            name: value + value.std() * self._rng.standard_normal(value.shape).astype(value.dtype)
            for name, value in outputs.items()
        }


def test_the_widest_beam_with_hotwords_is_within_the_profile() -> None:
    (widest,) = (bound.le for bound in AsrConfig.model_fields["beam"].metadata if isinstance(bound, Le))
    assert widest + FAVOURED <= ROWS[2]


def test_a_wide_beam_with_hotwords_is_decoded_through_tensorrt_s_api(
    folder: Path, parts: Parts, beckett: np.ndarray
) -> None:
    wide = opened(folder, parts, on_fake_tensorrt, beam=16)
    noise = np.random.default_rng(3).normal(0, 0.2, 24_000).astype(np.float32)  # many paths are as likely
    hotwords = (Hotword("matter"), Hotword("failed"), Hotword("ever"))
    assert text(wide, SegmentRequest(beckett[:24_000] + noise, hotwords=hotwords)).tokens
