"""Every network that cosyd ships goes through TensorRT-RTX's parser and compiler, which need no GPU."""

from __future__ import annotations

import hashlib
from pathlib import Path

import onnxruntime
import pytest

from cosyd.engine import moonshine, moonshine_plain
from cosyd.engine.compile import BuildFailed, BuildRequest, compile_plan
from cosyd.engine.library import RTX, TensorRtMissing, load_library
from cosyd.engine.precision import to_half
from cosyd.engine.profiles import Profile
from cosyd.engine.rewrite import plain_network
from cosyd.engine.shipped import SILERO_PROFILE, silero
from cosyd.frontend import dtln
from cosyd.models.graph import GraphBuilder
from cosyd.models.onnx import plain_onnx

REPOSITORY = Path(__file__).resolve().parents[2]
TARGET = (8, 9)
PREPARE = (
    "compile",
    "library",
    "moonshine",
    "moonshine_lean",
    "moonshine_plain",
    "plain_writer",
    "profiles",
    "quantised",
    "writer",
)


@pytest.fixture(scope="module", autouse=True)
def compiler() -> None:
    try:
        load_library(RTX)
    except TensorRtMissing as error:
        pytest.skip(str(error))


def build(name: str, onnx: bytes, *profiles: Profile, precision: str = "fp32") -> bytes:
    data = to_half(onnx) if precision == "fp16" else onnx
    request = BuildRequest(name, data, profiles, target=TARGET, libraries=RTX, optimisation=0)
    return compile_plan(request).code


def test_dtln_as_the_front_end_builds_it_compiles(models_dir: Path) -> None:
    profile = Profile.of({"hops": (1, 4, 8), "n": (1, 8, 64)})
    for name, make in (("model_1", dtln._mask_network), ("model_2", dtln._refine_network)):
        assert build(name, make(models_dir / "dtln" / f"{name}.onnx"), profile)


def test_dtln_s_first_network_as_published_is_refused(models_dir: Path) -> None:
    """Known: the compiler fails inside. Should this test fail, the library has learnt it."""
    with pytest.raises(BuildFailed, match="cannot compile it"):
        build("model_1", (models_dir / "dtln" / "model_1.onnx").read_bytes())


def test_silero_is_refused_as_published_and_compiles_as_rewritten(models_dir: Path) -> None:
    path = models_dir / "silero-vad-6" / "silero_vad_16k_op15.onnx"
    free = Profile.of({"batch": (1, 8, 64), "sequence": (576, 576, 576)})
    with pytest.raises(BuildFailed, match="cannot compile it"):
        build("silero", path.read_bytes(), free)
    assert build("silero", silero(path), SILERO_PROFILE)
    assert build("silero", silero(path), SILERO_PROFILE, precision="fp16")


def test_the_example_of_a_streaming_encoder_compiles() -> None:
    path = REPOSITORY.parent / "shared" / "models" / "streaming-ctc-tiny" / "encoder.onnx"
    if not path.is_file():
        pytest.skip(f"no {path}")
    assert build("streaming-ctc-tiny", plain_network(path), Profile.of({"batch": (1, 8, 64)}))


@pytest.mark.parametrize("name", moonshine.PROFILES)
def test_moonshine_compiles(models_dir: Path, request: pytest.FixtureRequest, name: str) -> None:
    """All layers, for TensorRT-RTX: done again where the published file, the library or what prepares the
    network has changed since it last compiled here, which pytest's cache remembers."""
    folder = models_dir / "moonshine-tiny-en"
    key, mark = f"cosyd/compiled/moonshine-{name}", fingerprint(folder / moonshine.DECODER)
    cache = getattr(request.config, "cache", None)
    if cache is not None and cache.get(key, "") == mark:
        return
    assert build(f"moonshine-{name}", getattr(moonshine_plain, name)(folder), moonshine.PROFILES[name])
    if cache is not None:
        cache.set(key, mark)


def fingerprint(published: Path) -> str:
    """Of all that decides whether a network compiles."""
    sources = [REPOSITORY / "cosyd" / "engine" / f"{module}.py" for module in PREPARE]
    digest = hashlib.sha256(published.read_bytes())
    for source in (*sources, Path(__file__)):
        digest.update(source.read_bytes())
    return f"{load_library(RTX).title} {onnxruntime.__version__} {digest.hexdigest()}"


def test_a_network_that_it_cannot_parse_is_refused_with_its_reason(models_dir: Path) -> None:
    path = models_dir / "moonshine-tiny-en" / "encoder_model.ort"
    with pytest.raises(BuildFailed, match="cannot parse it: In node"):
        build("encoder", plain_onnx(path, optimise=False), Profile.of({"batch_size": (1, 1, 1)}))


def test_another_gpu_is_compiled_for_and_one_without_support_is_named() -> None:
    graph = GraphBuilder()
    x = graph.input("x", ["n", 4])
    y = graph.node("Sigmoid", [x], ["y"])
    graph.output(y, ["n", 4])
    data, profile = graph.build("small"), Profile.of({"n": (1, 2, 4)})
    for target in ((8, 6), (12, 0)):
        assert compile_plan(BuildRequest("small", data, (profile,), target=target, libraries=RTX)).code
    library = load_library(RTX)
    assert "does not run on compute capability 9.0" in str(library.refuses((9, 0)))
    assert library.refuses((8, 9)) is None
