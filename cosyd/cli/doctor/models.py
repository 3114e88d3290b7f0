"""Are the models there and whole, and does ONNX Runtime load one?"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from cosyd.asr.recognizers import runs_whisper
from cosyd.cli.doctor.check import Check, Setup, fail, ok
from cosyd.config.schema import Config
from cosyd.errors import ModelError
from cosyd.frontend.factory import VAD_MODEL, models_needed
from cosyd.models.onnx import open_session
from cosyd.models.registry import lookup
from cosyd.models.store import ModelStore


def examine(setup: Setup) -> Iterator[Check]:
    store = ModelStore(setup.paths.models)
    sound = True
    for name in needed(setup.config):
        check = model(store, name)
        sound = sound and check.status == "ok"
        yield check
    yield runtime(store, loadable=sound)
    if any(runs_whisper(name, store) for name in recognisers(setup.config)):
        yield ctranslate2()


def needed(config: Config) -> list[str]:
    """The models that this configuration uses."""
    return [*recognisers(config), *models_needed(config.frontend)]


def recognisers(config: Config) -> list[str]:
    """The models of one or two passes."""
    return list(filter(None, (config.asr.model, config.asr.second_pass)))


def model(store: ModelStore, name: str) -> Check:
    try:
        store.verify(name)
    except ModelError as error:
        return fail(f"models.{name}", str(error), f"cosyd models pull {name}")
    return ok(f"models.{name}", f"whole, in {store.path(name)}")


def ctranslate2() -> Check:
    """What Whisper runs on is installed."""
    try:
        return ok("models.whisper", f"ctranslate2 {version('ctranslate2')}")
    except PackageNotFoundError:
        return fail("models.whisper", "ctranslate2 is not installed", "pip install cosyd[whisper]")


def runtime(store: ModelStore, *, loadable: bool) -> Check:
    """ONNX Runtime is there, and loads the smallest of the networks."""
    try:
        number = version("onnxruntime")
    except PackageNotFoundError:
        try:
            number = version("onnxruntime-gpu")
        except PackageNotFoundError:
            return fail("models.runtime", "onnxruntime is not installed", "pip install onnxruntime")
    if not loadable:
        return ok("models.runtime", f"onnxruntime {number}, not tried: models are missing")
    try:
        network = open_session(store.file(VAD_MODEL, lookup(VAD_MODEL).files[0].name))
    except ModelError as error:
        return fail(
            "models.runtime", f"onnxruntime {number}: {error}", "pip install --force-reinstall onnxruntime"
        )
    return ok("models.runtime", f"onnxruntime {number} loads networks, on {network.device}")
