"""Moonshine: greedy decoding against a scripted network, and a few short runs of the real one."""

import wave
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from cosyd.asr.hotwords import Hotword
from cosyd.asr.moonshine import TOKENS_MARGIN, TOKENS_PER_S, Moonshine
from cosyd.asr.moonshine_networks import HostNetworks
from cosyd.asr.recognizer import SegmentRequest
from cosyd.asr.tokenizer import EOS, Tokenizer
from cosyd.config.schema import AsrConfig
from cosyd.engine.tensors import TensorSpec
from cosyd.errors import ConfigError, InferenceError, ModelDamaged, ModelMissing
from cosyd.models.stop import Stop, Stopped

WORDS = ["▁a", "▁b", "▁c", "▁d", "x"]
VOCABULARY = Tokenizer(
    [b"<unk>", b"<s>", b"</s>", *(bytes([i]) for i in range(256)), *(word.encode() for word in WORDS)]
)
A, B, C, D, X = range(3 + 256, 3 + 256 + 5)
SURE = 20.0


def tensors(*names: str) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(name, np.dtype(np.float32), ()) for name in names)


class Scripted:
    """What an engine has that is of no matter here."""

    closed = False

    def close(self) -> None:
        self.closed = True


class Encoder(Scripted):
    inputs = tensors("input_values")
    outputs = tensors("present.0.encoder.key")

    def __init__(self) -> None:
        self.runs = 0

    def run(
        self, feeds: Mapping[str, np.ndarray], outputs: Sequence[str] | None = None
    ) -> dict[str, np.ndarray]:
        self.runs += 1
        assert feeds["input_values"].shape[1] > 100
        return {"present.0.encoder.key": np.zeros((1, 1, 3, 1), np.float32)}


class Decoder(Scripted):
    """Says ``script`` when what it has said so far is a beginning of it, else the script's end or ``D``.

    The cache of the first layer holds the tokens themselves, so a wrong cache is a wrong text.
    """

    inputs = tensors("input_ids", "past_key_values.0.decoder.key", "past_key_values.0.encoder.key")
    outputs = tensors("logits", "present.0.decoder.key")

    def __init__(self, script: Sequence[int], otherwise: int = D) -> None:
        self.script = list(script)
        self.otherwise = otherwise
        self.runs: list[int] = []  # tokens of each run

    def run(
        self, feeds: Mapping[str, np.ndarray], outputs: Sequence[str] | None = None
    ) -> dict[str, np.ndarray]:
        ids = feeds["input_ids"][0].tolist()
        self.runs.append(len(ids))
        past = feeds["past_key_values.0.decoder.key"]
        assert feeds["past_key_values.0.encoder.key"].shape == (1, 1, 3, 1)
        said = [*past[0, 0, :, 0].astype(int).tolist(), *ids]
        logits = np.zeros((1, len(ids), len(VOCABULARY)), np.float32)
        for row in range(len(ids)):
            logits[0, row, self._next(said[1 : len(said) - len(ids) + row + 1])] = SURE
        present = np.array(said, np.float32).reshape(1, 1, -1, 1)
        everything = {
            "logits": logits,
            "present.0.decoder.key": present,
        }
        return {name: everything[name] for name in (outputs or everything)}

    def _next(self, said: list[int]) -> int:
        if said == self.script[: len(said)]:
            return self.script[len(said)] if len(said) < len(self.script) else EOS
        return self.otherwise if len(said) < len(self.script) else EOS


def moonshine(script: Sequence[int], otherwise: int = D) -> tuple[Moonshine, Encoder, Decoder]:
    encoder, decoder = Encoder(), Decoder(script, otherwise)
    return Moonshine("tiny", HostNetworks("tiny", encoder, decoder), VOCABULARY), encoder, decoder


SECOND = np.zeros(16_000, np.float32)


def test_greedy_token_by_token() -> None:
    model, _, decoder = moonshine([A, B, X, C])
    (result,) = model.transcribe([SegmentRequest(SECOND)])
    assert (result.text, result.tokens) == ("a bx c", (A, B, X, C))
    assert result.conf == pytest.approx(1.0, abs=1e-4)
    assert decoder.runs == [1] * 5


@pytest.mark.parametrize(
    ("draft", "runs"),
    [
        ((A, B, X, C), [5]),
        ((A, B), [3, 1, 1]),
        ((A, B, C, C), [5, 1, 1]),
        ((D, D, D), [4, 1, 1, 1, 1]),
        ((A, B, X, C, A), [6]),
    ],
)
def test_a_draft_saves_runs_and_changes_nothing(draft: tuple[int, ...], runs: list[int]) -> None:
    model, _, decoder = moonshine([A, B, X, C])
    (result,) = model.transcribe([SegmentRequest(SECOND, draft=draft)])
    assert (result.text, result.tokens) == ("a bx c", (A, B, X, C))
    assert decoder.runs == runs


def test_a_prompt_that_the_model_agrees_with_costs_nothing() -> None:
    model, _, decoder = moonshine([A, B, C])
    assert model.transcribe([SegmentRequest(SECOND, "a b")])[0].text == "a b c"
    assert decoder.runs == [1] * 4


def test_a_prompt_that_it_does_not_agree_with_is_the_beginning_and_the_audio_is_encoded_once() -> None:
    model, encoder, _ = moonshine([A, B, C])
    (result,) = model.transcribe([SegmentRequest(SECOND, "d d")])
    assert result.text == "d d d"
    assert encoder.runs == 1


@pytest.mark.parametrize("beam", [1, 4])
def test_what_was_promised_of_a_draft_is_not_searched_again(beam: int) -> None:
    """It contradicts what the model would say: one beginning all the same, no second one."""
    encoder, decoder = Encoder(), Decoder([A, B, C], otherwise=EOS)
    model = Moonshine("tiny", HostNetworks("tiny", encoder, decoder), VOCABULARY, beam=beam)
    (result,) = model.transcribe([SegmentRequest(SECOND, "d", draft=(D, D))])
    assert result.text == "d"
    assert [tokens for tokens in decoder.runs if tokens > 1] == [3]  # BOS and the draft


def test_a_prompt_ends_at_a_word() -> None:
    """The model would go on with a piece of the same word; it may not."""
    model, _, _ = moonshine([A, B, X, C], otherwise=X)
    (result,) = model.transcribe([SegmentRequest(SECOND, "a b")])
    assert result.text.split()[:2] == ["a", "b"]


def test_the_number_of_tokens_is_bounded() -> None:
    model, _, _ = moonshine(list(range(3, 250)))
    (result,) = model.transcribe([SegmentRequest(SECOND)])
    assert len(result.tokens) == round(TOKENS_PER_S) + TOKENS_MARGIN


def test_a_loop_is_cut() -> None:
    model, _, _ = moonshine([A, *[B, C, D] * 100])
    (result,) = model.transcribe([SegmentRequest(np.zeros(16_000 * 20, np.float32))])
    assert result.text == "a b c d"


def test_nothing_said_has_no_confidence() -> None:
    model, _, _ = moonshine([])
    (result,) = model.transcribe([SegmentRequest(SECOND)])
    assert (result.text, result.tokens, result.conf) == ("", (), None)


def test_very_short_audio_is_lengthened() -> None:
    model, _, _ = moonshine([A])
    assert [r.text for r in model.transcribe([SegmentRequest(SECOND[:n]) for n in (0, 1, 512)])] == ["a"] * 3


def test_other_networks_are_refused() -> None:
    with pytest.raises(ModelDamaged, match="not Moonshine's"):
        HostNetworks("tiny", Decoder([]), Encoder())


def test_closing_closes_both_networks() -> None:
    model, encoder, decoder = moonshine([A])
    model.close()
    assert encoder.closed and decoder.closed


def test_a_failing_network_is_an_inference_error() -> None:
    class Broken(Encoder):
        def run(
            self, feeds: Mapping[str, np.ndarray], outputs: Sequence[str] | None = None
        ) -> dict[str, np.ndarray]:
            raise InferenceError("encoder failed")

    model = Moonshine("tiny", HostNetworks("tiny", Broken(), Decoder([A])), VOCABULARY)
    with pytest.raises(InferenceError):
        model.transcribe([SegmentRequest(SECOND)])


# --- by name -----------------------------------------------------------------------------------------------


class Store:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def require(self, name: str) -> Path:
        return self.folder

    def own(self, name: str) -> None:
        return None


def test_an_unknown_name_is_a_configuration_error_with_a_suggestion(tmp_path: Path) -> None:
    from cosyd.asr.recognizers import load_recognizer

    with pytest.raises(ConfigError, match="did you mean 'moonshine-tiny-en'"):
        load_recognizer(AsrConfig(model="moonshine-tiny"), Store(tmp_path))
    with pytest.raises(ConfigError, match="there are: moonshine-tiny-en"):
        load_recognizer(AsrConfig(model="qqq"), Store(tmp_path))


def test_an_empty_folder_is_a_missing_model(tmp_path: Path) -> None:
    from cosyd.asr.recognizers import load_recognizer

    with pytest.raises(ModelMissing):
        load_recognizer(AsrConfig(), Store(tmp_path))


def test_a_file_that_is_no_network_is_damaged(tmp_path: Path) -> None:
    for name in ("encoder_model.ort", "decoder_model_merged.ort", "tokenizer.bin"):
        (tmp_path / name).write_bytes(b"nonsense")
    with pytest.raises(ModelDamaged):
        Moonshine.load(tmp_path)


# --- the real one ----------------------------------------------------------------------------------------

BECKETT = "Ever tried, ever failed, no matter, try again, fail again, fail better."


@pytest.fixture(scope="module")
def real(models_dir: Path) -> Moonshine:
    return Moonshine.load(models_dir / "moonshine-tiny-en")


@pytest.fixture(scope="module")
def beckett(models_dir: Path) -> np.ndarray:
    path = next(iter(sorted(models_dir.rglob("beckett.wav"))), None)
    if path is None:
        pytest.skip(f"no beckett.wav in {models_dir}")
    with wave.open(str(path)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768


def plain(text: str) -> list[str]:
    return "".join(c for c in text.lower() if c.isalpha() or c == " ").split()


def test_real_speech(real: Moonshine, beckett: np.ndarray) -> None:
    (result,) = real.transcribe([SegmentRequest(beckett)])
    assert plain(result.text) == plain(BECKETT)
    assert result.conf is not None
    assert 0.6 < result.conf <= 1
    (again,) = real.transcribe([SegmentRequest(beckett, draft=result.tokens)])
    assert again.tokens == result.tokens
    (agreed,) = real.transcribe([SegmentRequest(beckett, "ever tried. Ever failed.")])
    assert agreed.text == result.text  # marks and case are no contradiction
    (forced,) = real.transcribe([SegmentRequest(beckett, "Never tried. Ever failed.")])
    assert forced.text.startswith("Never tried. Ever failed. ")
    assert plain(forced.text)[1:] == plain(BECKETT)[1:]
    assert real.transcribe([SegmentRequest(beckett), SegmentRequest(beckett[:16_000])])[0] == result


def test_real_words_have_times(real: Moonshine, beckett: np.ndarray) -> None:
    """The pauses between the sentences are at 1.2 to 1.8, 2.7 to 3.4, 4.2 to 4.7 and 5.6 to 6.6 s."""
    (result,) = real.transcribe([SegmentRequest(beckett, words=True)])
    assert [word.w for word in result.words] == result.text.split()
    ends = {word.w.strip(".,").lower(): word.end for word in result.words[:8]}
    assert 1.0 < ends["tried"] < 1.3
    assert 2.5 < ends["failed"] < 2.8
    assert 4.0 < ends["matter"] < 4.3
    assert all(0 < word.conf <= 1 for word in result.words if word.conf is not None)
    shorter = real.transcribe([SegmentRequest(beckett)])[0]
    assert shorter.words == ()
    assert shorter.tokens == result.tokens


def test_real_hotwords(real: Moonshine, beckett: np.ndarray) -> None:
    fell = (Hotword("fell better", 9.0),)
    assert "fell better" in real.transcribe([SegmentRequest(beckett, hotwords=fell)])[0].text.lower()
    others = (Hotword("cappuccino"), Hotword("dark roast", 3.0))
    assert plain(real.transcribe([SegmentRequest(beckett, hotwords=others)])[0].text) == plain(BECKETT)


def test_real_beam(models_dir: Path, beckett: np.ndarray) -> None:
    wide = Moonshine.load(models_dir / "moonshine-tiny-en", beam=4)
    (result,) = wide.transcribe([SegmentRequest(beckett)])
    assert plain(result.text) == plain(BECKETT)
    assert 0 < len(set(result.others)) == len(result.others) <= 4
    assert result.text not in result.others
    (again,) = wide.transcribe([SegmentRequest(beckett, draft=result.tokens[:9])])
    assert plain(again.text) == plain(BECKETT)
    (forced,) = wide.transcribe([SegmentRequest(beckett, "Ever cried. Ever failed.")])
    assert forced.text.startswith("Ever cried. Ever failed. ")


def test_what_is_shown_for_a_moment_is_searched_from_its_last_word_on(
    real: Moonshine, models_dir: Path, beckett: np.ndarray
) -> None:
    wide = Moonshine.load(models_dir / "moonshine-tiny-en", beam=4)
    for recognizer in (wide, real):
        (first,) = recognizer.transcribe([SegmentRequest(beckett[:80_000], quick=True, source="s")])
        (whole,) = recognizer.transcribe(
            [SegmentRequest(beckett, draft=first.tokens, quick=True, source="s")]
        )
        assert plain(whole.text) == plain(BECKETT)
        assert bool(whole.others) == (recognizer is wide)


def test_phrases_that_it_cannot_favour(real: Moonshine) -> None:
    """Field case 23."""
    phrases = ("flat white", "naïve", "x", "语音", "FLAT WHITE")
    refused = real.unusable([Hotword(phrase) for phrase in phrases])
    assert [item.phrase for item in refused] == ["x", "语音"]
    assert "single letter" in refused[0].reason
    assert "never writes '语'" in refused[1].reason


def test_real_vocabulary_spells_as_the_model_does(real: Moonshine, models_dir: Path) -> None:
    vocabulary = Tokenizer.load(models_dir / "moonshine-tiny-en" / "tokenizer.bin")
    text = "It was the best of times, it was the worst of times; naïve café — 日本."
    assert vocabulary.decode(vocabulary.encode(text)) == text


def test_what_nobody_wants_any_more_is_stopped(real: Moonshine, beckett: np.ndarray) -> None:
    audio, stop = beckett[:32_000], Stop()
    (wanted,) = real.transcribe([SegmentRequest(audio)])
    with stop.heeded():
        assert real.transcribe([SegmentRequest(audio)]) == [wanted]
        stop.set()
        with pytest.raises(Stopped):
            real.transcribe([SegmentRequest(audio)])
