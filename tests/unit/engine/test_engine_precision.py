"""Half precision and 8-bit products; the golden check that lets them in or not; recordings."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_networks import model
from fake_engine import LIBRARIES
from onnx import TensorProto, helper

from cosyd.engine.compile import BuildRequest, check_plan, compile_plan
from cosyd.engine.golden import Close, Golden, Threshold, Tokens
from cosyd.engine.graphs import parse
from cosyd.engine.ort import open_ort_cpu
from cosyd.engine.precision import to_half, to_int8
from cosyd.engine.profiles import Profile
from cosyd.engine.recipe import Recipe, calibration_feeds, read_wavs
from cosyd.errors import ModelError

Array = np.ndarray[Any, Any]
WINDOW = 16
RNG = np.random.default_rng(11)
SPEECH = (RNG.standard_normal(4_000) * 0.2).astype(np.float32)


def small_network(normalised: bool) -> bytes:
    """x [n, 16] -> y [n, 4] = x² W; where normalised, the squares are divided by their mean."""
    make, rng = helper.make_node, np.random.default_rng(12)
    nodes = [make("Mul", ["x", "x"], ["power"])]
    source = "power"
    if normalised:
        nodes += [
            make("ReduceMean", ["power"], ["mean"], axes=[1]),
            make("Add", ["mean", "tiny"], ["safe"]),
            make("Div", ["power", "safe"], ["level"]),
        ]
        source = "level"
    nodes += [make("MatMul", [source, "W"], ["y"])]
    value = helper.make_tensor_value_info
    weights = {
        "W": rng.standard_normal((WINDOW, 4)).astype(np.float32),
        "tiny": np.full(1, 1e-6, np.float32),
    }
    made = model(
        nodes,
        [value("x", TensorProto.FLOAT, ["n", WINDOW])],
        [value("y", TensorProto.FLOAT, ["n", 4])],
        weights,
    )
    return bytes(made.SerializeToString())


RECIPE = Recipe("x", WINDOW, WINDOW)


def golden(*decisions: Any) -> Golden:
    return Golden(RECIPE, SPEECH, decisions)


def types_of(data: bytes) -> set[int]:
    return {tensor.data_type for tensor in parse(data, "test").graph.initializer}


def test_half_precision_keeps_inputs_and_outputs_and_passes() -> None:
    network = small_network(normalised=False)
    half = to_half(network)
    assert TensorProto.FLOAT16 in types_of(half)
    with open_ort_cpu(network) as reference, open_ort_cpu(half) as engine:
        assert [str(spec) for spec in engine.inputs + engine.outputs] == ["float32[n, 16]", "float32[n, 4]"]
        got = [outputs["y"] for _, outputs in RECIPE.steps(engine, SPEECH)]
        expected = [outputs["y"] for _, outputs in RECIPE.steps(reference, SPEECH)]
        np.testing.assert_allclose(np.array(got), np.array(expected), atol=0.01)


def test_what_overflows_at_a_thousand_times_the_amplitude_is_refused() -> None:
    """Squares of 256 and more are infinite in float16. The normalised one would be finite without them."""
    for normalised in (False, True):
        check = golden(Close("y", 0.05))
        profiles = (Profile.of({"n": (1, 1, 4)}),)
        request = BuildRequest(
            "small",
            small_network(normalised),
            profiles,
            "fp16",
            golden=check,
            memory="cpu",
            libraries=LIBRARIES,
        )
        fault = str(check_plan(request, compile_plan(request)))
        assert fault.startswith("y: values that are not finite in step 0")
        assert fault.endswith("at 1,000 times the amplitude")


def test_float32_passes_against_itself() -> None:
    network = small_network(normalised=True)
    with open_ort_cpu(network) as reference, open_ort_cpu(network) as engine:
        assert golden(Close("y")).fault(engine, reference) is None


def test_8_bit_products_have_scales_of_what_was_heard() -> None:
    network = small_network(normalised=True)
    with open_ort_cpu(network) as reference:
        quantised = to_int8(network, calibration_feeds(RECIPE, reference, [SPEECH]))
        kinds = [node.op_type for node in parse(quantised, "test").graph.node]
        assert kinds.count("DequantizeLinear") >= 2
        zeros = [
            tensor
            for tensor in parse(quantised, "test").graph.initializer
            if "zero_point" in tensor.name and tensor.data_type == TensorProto.INT8
        ]
        assert zeros
        assert all(not any(tensor.raw_data) and not any(tensor.int32_data) for tensor in zeros)  # symmetric
        with open_ort_cpu(quantised) as engine:
            assert golden(Close("y", 0.05)).fault(engine, reference) is None
            assert "off by" in str(golden(Close("y", 1e-4)).fault(engine, reference))


def test_calibrating_with_nothing_is_refused() -> None:
    with pytest.raises(ModelError, match="no calibration data"):
        to_int8(small_network(normalised=False), [])


def steps(output: str, *values: Any) -> list[dict[str, Array]]:
    return [{output: np.asarray(value, np.float32)} for value in values]


def one_hot(*tokens: int) -> Array:
    return np.eye(5, dtype=np.float32)[list(tokens)][None]


def test_tokens_are_compared_without_blanks_and_repetitions() -> None:
    decision = Tokens("y")
    right = steps("y", one_hot(0, 3, 3), one_hot(3, 0, 3, 2))
    assert decision.difference(right, steps("y", one_hot(3, 3, 0), one_hot(3, 2, 2))) is None
    assert decision.difference(right, steps("y", one_hot(3, 0, 4), one_hot(2))) == "token 1 of 3 in y differs"
    assert decision.difference(right, steps("y", one_hot(3, 0, 3))) == "token 2 of 3 in y differs"


def test_a_threshold_is_lenient_only_where_the_right_value_is_close_to_it() -> None:
    decision = Threshold("p", 0.6, margin=0.01)
    right = steps("p", [[0.595]], [[0.9]])
    assert decision.difference(right, steps("p", [[0.61]], [[0.7]])) is None
    assert (
        decision.difference(right, steps("p", [[0.61]], [[0.5]])) == "p is on the other side of 0.6 at step 1"
    )


def test_states_go_on_from_step_to_step() -> None:
    from engine_networks import FEATURES, Recurrent

    network = Recurrent()
    recipe = Recipe("x", FEATURES, FEATURES, states=network.states)
    audio = SPEECH[: 5 * FEATURES]
    feeds = network.zeros(1)
    with open_ort_cpu(network.build()) as engine:
        for index, (_, outputs) in enumerate(recipe.steps(engine, audio)):
            x = audio[None, index * FEATURES : (index + 1) * FEATURES]
            expected = network.step({"x": x, **feeds})
            feeds = {name: expected[source] for name, source in network.states.items()}
            np.testing.assert_allclose(outputs["y"], expected["y"], atol=1e-5)
    assert index == 4


def write_wav(path: Path, samples: Array, width: int, rate: int = 16_000, channels: int = 1) -> None:
    full = {1: 127, 2: 32_767, 3: 8_388_607, 4: 2_147_483_647}[width]
    whole = np.round(samples.astype(np.float64) * full).astype("<i8")
    whole = np.repeat(whole[:, None], channels, 1)
    whole[:, 1:] = 0
    raw = whole.reshape(-1, 1).view(np.uint8).reshape(-1, 8)[:, :width].copy()
    if width == 1:
        raw ^= 0x80
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, width, rate, 0, "NONE", ""))
        file.writeframes(raw.tobytes())


@pytest.mark.parametrize(("width", "channels"), [(1, 1), (2, 1), (2, 3), (3, 2), (4, 1)])
def test_recordings_of_any_sample_format_are_read(tmp_path: Path, width: int, channels: int) -> None:
    write_wav(tmp_path / "a.wav", SPEECH, width, channels=channels)
    (audio,) = read_wavs(tmp_path)
    np.testing.assert_allclose(audio, SPEECH, atol=0.02 if width == 1 else 1e-4)
    assert audio.dtype == np.float32


def test_recordings_that_do_not_do_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no \*\.wav below it"):
        read_wavs(tmp_path)
    write_wav(tmp_path / "fast.wav", SPEECH, 2, rate=44_100)
    with pytest.raises(ModelError, match=r"fast\.wav: 44100 Hz"):
        read_wavs(tmp_path)
    (tmp_path / "fast.wav").write_bytes(b"no sound")
    with pytest.raises(ModelError, match=r"fast\.wav: not a WAV file"):
        read_wavs(tmp_path)
