"""From a phrase to the tokens that a streaming model spells it with.

How a model splits text is told by the files beside it: ``bpe.model`` (sentencepiece's own), ``bpe.vocab`` (a
piece and its score a line; the split with the highest sum is taken, as sherpa-onnx does), or nothing, when a
token is a character. In models of Chinese and English, Chinese characters are tokens of their own and the
words between them are split into pieces. A character that has no piece is spelled in byte pieces where the
vocabulary has them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from cosyd.asr.decoders.context_graph import ContextGraph
from cosyd.asr.hotwords import Hotword, Rejected
from cosyd.asr.streaming.tokens import WORD_START, Tokens
from cosyd.errors import ModelDamaged, ModelMissing

Unit = Literal["bpe", "cjkchar", "cjkchar+bpe"]
Split = Callable[[str], Sequence[str]]
"""A word, without blanks, to pieces; what the vocabulary cannot spell comes as it is."""

DEFAULT_SCORE = 1.5  # nats a token: sherpa-onnx's default


def _is_ideograph(character: str) -> bool:
    return "\u3040" <= character <= "\u9fff" or "\uf900" <= character <= "\ufaff"


def split_scripts(text: str) -> list[str]:
    """Words as they are between blanks, every Chinese or Japanese character by itself."""
    parts: list[str] = []
    open_word = False
    for character in text:
        if character.isspace():
            open_word = False
        elif _is_ideograph(character):
            parts.append(character)
            open_word = False
        elif open_word:
            parts[-1] += character
        else:
            parts.append(character)
            open_word = True
    return parts


def read_bpe_model(file: Path) -> Split:
    """``bpe.model``. Raises ModelMissing without the library, ModelDamaged for another file."""
    try:
        import sentencepiece
    except ImportError as error:
        raise ModelMissing(f"{file}: hotwords need sentencepiece; run: pip install sentencepiece") from error
    try:
        processor = sentencepiece.SentencePieceProcessor(model_file=str(file))
    except (OSError, RuntimeError) as error:
        raise ModelDamaged(f"{file}: no model of sentencepiece: {error}") from error
    return lambda word: [str(piece) for piece in processor.encode(word, out_type=str)]


def read_bpe_vocab(file: Path) -> Split:
    """``bpe.vocab``: piece, tabulator, score a line. Raises ModelDamaged with the line that is wrong."""
    scores: dict[str, float] = {}
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelDamaged(f"{file}: cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        piece, tab, score = line.rpartition("\t")
        try:
            scores[piece] = float(score)
        except ValueError:
            tab = ""
        if not tab:
            raise ModelDamaged(f"{file}:{number}: {line!r} is not a piece, a tabulator and its score")
    return lambda word: best_split(WORD_START + word, scores)


def best_split(text: str, scores: dict[str, float]) -> list[str]:
    """The pieces of ``text`` with the highest sum of scores; a character without a piece stands alone.

    Such a one costs more than any pieces could gain, so that there are as few of them as can be.
    """
    longest = max(map(len, scores), default=1)
    unknown = -1e6 + min(scores.values(), default=0.0)
    best = [0.0] + [-math.inf] * len(text)
    back = [0] * (len(text) + 1)
    for end in range(1, len(text) + 1):
        for begin in range(max(0, end - longest), end):
            score = scores.get(text[begin:end], unknown if end - begin == 1 else -math.inf)
            if best[begin] + score > best[end]:
                best[end], back[end] = best[begin] + score, begin
    pieces: list[str] = []
    end = len(text)
    while end:
        pieces.append(text[back[end] : end])
        end = back[end]
    return pieces[::-1]


class Speller:
    """Of one model. Immutable."""

    def __init__(self, tokens: Tokens, split: Split | None = None, unit: Unit | None = None) -> None:
        """``split``: how words become pieces; None where tokens are characters. ``unit`` None: what the
        vocabulary looks like."""
        self._tokens = tokens
        self._split = split
        self._unit = unit or self._guess()
        if self._unit != "cjkchar" and split is None:
            raise ModelMissing("hotwords of a model of word pieces need its bpe.model or bpe.vocab beside it")
        self._letters = {
            raw[0]: piece
            for piece, raw in zip(tokens.pieces, tokens.bytes_of, strict=True)
            if tokens.byte_level and len(piece) == len(raw) == 1
        }
        self._unsaid = {tokens.blank, tokens.unknown}

    @classmethod
    def beside(cls, tokens: Tokens, folder: Path, unit: Unit | None = None) -> Speller:
        """From what lies in a model's folder. Raises ModelMissing or ModelDamaged."""
        for name, read in (("bpe.model", read_bpe_model), ("bpe.vocab", read_bpe_vocab)):
            if (folder / name).is_file():
                return cls(tokens, read(folder / name), unit)
        return cls(tokens, None, unit)

    def _guess(self) -> Unit:
        if not self._tokens.spaced:
            return "cjkchar"
        ideographs = any(len(p) == 1 and _is_ideograph(p) for p in self._tokens.pieces)
        return "cjkchar+bpe" if ideographs else "bpe"

    def spell(self, phrase: str) -> tuple[int, ...]:
        """Token ids. Raises ValueError with the reason when the vocabulary cannot spell it.

        A model that knows capitals only, or small letters only, gets the phrase in these.
        """
        reasons = []
        for text in dict.fromkeys((phrase, phrase.lower(), phrase.upper())):
            try:
                return self._spell(text)
            except ValueError as error:
                reasons.append(error)
        raise reasons[0]

    def _spell(self, text: str) -> tuple[int, ...]:
        found: list[int] = []
        for part in split_scripts(text) if self._unit != "bpe" or self._letters else text.split():
            for piece in self._pieces(part):
                found += self._ids(piece)
        if not found:
            raise ValueError("there is nothing in it to spell")
        return tuple(found)

    def _pieces(self, part: str) -> Sequence[str]:
        if self._letters and self._split is not None:
            return self._split("".join(self._letters.get(byte, "\ufffd") for byte in part.encode()))
        if self._unit == "cjkchar" or self._split is None:
            return [part]
        if self._unit == "cjkchar+bpe" and _is_ideograph(part[0]):
            return [part]
        return self._split(part)

    def _ids(self, piece: str) -> list[int]:
        token = self._tokens.ids.get(piece)
        if token is not None and token not in self._unsaid:
            return [token]
        spelled = [self._tokens.ids.get(f"<0x{byte:02X}>") for byte in piece.encode()]
        if None not in spelled:
            return [byte for byte in spelled if byte is not None]
        raise ValueError(f"the model has no token for {piece.replace(WORD_START, '') or piece!r}")


def spell_hotwords(
    hotwords: Sequence[Hotword], speller: Speller, default_score: float = DEFAULT_SCORE
) -> tuple[ContextGraph | None, tuple[Hotword, ...], tuple[Rejected, ...]]:
    """(graph of all that can be spelled, None when nothing can; those; the others and why)."""
    accepted: dict[tuple[int, ...], Hotword] = {}
    rejected: list[Rejected] = []
    for hotword in hotwords:
        try:
            tokens = speller.spell(hotword.phrase)
        except ValueError as error:
            rejected.append(Rejected(hotword.phrase, str(error)))
            continue
        accepted[tokens] = hotword
    if not accepted:
        return None, (), tuple(rejected)
    scores = [default_score if each.score is None else each.score for each in accepted.values()]
    return ContextGraph(list(accepted), scores), tuple(accepted.values()), tuple(rejected)
