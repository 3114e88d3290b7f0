"""Language model of words: what each token adds, and what that changes in a search."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from cosyd.asr.decoders.ctc_beam import CtcBeam
from cosyd.asr.decoders.hypothesis import log_softmax
from cosyd.asr.decoders.ngram import NgramLm
from cosyd.asr.decoders.transducer_beam import TransducerBeam
from cosyd.asr.recognizers import open_streaming
from cosyd.asr.streaming.tokens import Tokens
from cosyd.config.schema import AsrConfig
from cosyd.errors import ModelDamaged, ModelMissing

TOKENS = Tokens(["<blk>", "▁FLAT", "▁FL", "AT", "▁WHITE", "▁WIGHT", "▁"])
ARPA = """\\data\\
ngram 1=5
ngram 2=4

\\1-grams:
-99\t<s>\t-0.3
-1.0\t</s>
-1.0\tflat\t-0.5
-1.0\twhite\t-0.5
-1.5\twight\t-0.2

\\2-grams:
-0.4\t<s> flat
-0.2\tflat white
-2.0\tflat wight
-0.3\twhite </s>

\\end\\
"""


ONE = {"</s>": -1.0, "flat": -1.0, "white": -1.0, "wight": -1.5}
BACK = {"<s>": -0.3, "flat": -0.5, "white": -0.5, "wight": -0.2}
TWO = {
    ("<s>", "flat"): -0.4,
    ("flat", "white"): -0.2,
    ("flat", "wight"): -2.0,
    ("white", "</s>"): -0.3,
}


class State:
    """What kenlm.State is for the model below."""

    word = "<s>"


class Bigrams:
    """kenlm.Model for the ARPA file above, with the back-off written out."""

    def BeginSentenceWrite(self, state: State) -> None:
        state.word = "<s>"

    def BaseScore(self, before: State, word: str, after: State) -> float:
        after.word = word
        backed_off = BACK.get(before.word, 0.0) + ONE.get(word, -100.0)
        return TWO.get((before.word, word), backed_off)

    def __contains__(self, word: str) -> bool:
        return word in ONE


@pytest.fixture(params=["written out", "kenlm"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> NgramLm:
    if request.param == "written out":
        return NgramLm(Bigrams(), State, TOKENS, weight=0.5, word_bonus=0.25)
    pytest.importorskip("kenlm", reason="KenLM is not installed: pip install cosyd[lm]")
    file = tmp_path / "words.arpa"
    file.write_text(ARPA)
    return NgramLm.load(file, TOKENS, weight=0.5, word_bonus=0.25)


def score(model: NgramLm, tokens: list[int]) -> tuple[list[float], float]:
    state, found = model.begin(), []
    for token in tokens:
        state, added = model.step(state, token)
        found.append(added)
    return found, model.finish(state)


def nats(log_10: float) -> float:
    return 0.5 * math.log(10) * log_10


def test_a_word_is_scored_when_the_next_begins(model: NgramLm) -> None:
    found, end = score(model, [2, 3, 4])
    assert found == pytest.approx([0, 0, nats(-0.4) + 0.25], abs=1e-5)
    assert end == pytest.approx(nats(-0.2) + 0.25 + nats(-0.3), abs=1e-5)


def test_an_unknown_word_has_its_price(model: NgramLm) -> None:
    found, _ = score(model, [2, 4])
    assert found == pytest.approx([0, 0.5 * -10 + 0.25], abs=1e-5)


def test_no_words_no_score(model: NgramLm) -> None:
    assert score(model, [])[1] == pytest.approx(nats(-0.3 - 1.0), abs=1e-5)
    assert score(model, [6, 1])[0] == pytest.approx([0, 0], abs=1e-5)


def test_it_decides_between_words_that_sound_alike(model: NgramLm) -> None:
    logits = np.full((4, 7), -8, np.float32)
    logits[[0, 2], 0] = 4
    logits[1, 1] = 4
    logits[3, [4, 5]] = 3.6, 4
    for language_model, expected in ((None, (1, 5)), (model, (1, 4))):
        decoder = CtcBeam(language_model=language_model)
        state = decoder.open()
        decoder.decode(log_softmax(logits)[None], [state])
        assert decoder.n_best(state, final=True)[0].tokens == expected


class Fixed:
    """A transducer whose scores are the encoder's output."""

    context_size, vocabulary, unk = 2, 7, None

    def run_decoder(self, contexts: np.ndarray) -> np.ndarray:
        return np.zeros((len(contexts), 1), np.float32)

    def run_joiner(self, encoder_out: np.ndarray, decoder_out: np.ndarray) -> np.ndarray:
        return encoder_out.copy()


def test_the_transducer_asks_it_too(model: NgramLm) -> None:
    logits = np.full((2, 5, 7), -8, np.float32)
    logits[:, [0, 2, 4], 0] = 4
    logits[:, 1, 1] = 4
    logits[:, 3, [4, 5]] = 3.6, 4
    for language_model, expected in ((None, (1, 5)), (model, (1, 4))):
        decoder = TransducerBeam(Fixed(), language_model=language_model)
        states = [decoder.open(), decoder.open()]
        for frame in range(5):
            decoder.decode(logits[:, frame : frame + 1], states, [1, int(frame > 0)])
        decoder.decode(logits[:, 4:], states, [0, 1])
        assert decoder.n_best(states[0], final=True)[0].tokens == expected


def test_what_is_missing_or_damaged_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="no such language model"):
        NgramLm.load(tmp_path / "none.arpa", TOKENS)
    pytest.importorskip("kenlm", reason="KenLM is not installed: pip install cosyd[lm]")
    (tmp_path / "other.arpa").write_text("nothing of the kind")
    with pytest.raises(ModelDamaged, match="KenLM cannot read it"):
        NgramLm.load(tmp_path / "other.arpa", TOKENS)


def test_a_streaming_model_takes_it_from_the_configuration(shared_data: Path, tmp_path: Path) -> None:
    pytest.importorskip("kenlm", reason="KenLM is not installed: pip install cosyd[lm]")
    folder = shared_data.parent / "models" / "streaming-ctc-tiny"
    file = tmp_path / "words.arpa"
    file.write_text(ARPA)
    config = AsrConfig(model=str(folder), language_model=str(file), language_weight=0.5)
    recognizer = open_streaming(config, folder, 1)
    slot = recognizer.open()
    assert recognizer.accept([slot], [np.zeros(16_000, np.float32)])[0].text == ""
    assert recognizer.finish(slot).text == ""
    recognizer.close()
    with pytest.raises(ModelMissing, match="no such language model"):
        open_streaming(config.model_copy(update={"language_model": "none.arpa"}), folder, 1)
