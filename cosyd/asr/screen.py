"""What of an utterance is on the screen: words that are worth showing before the final.

A partial result is a guess on audio that ends in the middle of a word, and one in six of its newest words is
not in the final. How probable it is that a word stays tell the least probability of its tokens, that of the
words beside it, whether the result before said it, too, and whether it is an echo of what was just said: who
has lost the thread repeats himself, and is sure of it. These are weighed (``WEIGHTS``).

A word that is taken back is as bad as one that comes ``PRICE_S`` too late. So a word is worth showing when
its probability is above price / (price + wait). The wait is until another result, as far as one notices it,
or as long as the word has been said so far: what did not become surer for long hardly will. Of waits only the
first ``MOST_WAIT_S`` count: what is doubtful for longer is late anyway. Where results come less often, on a
slower processor, a word is shown with less. Words are shown in their order, so a doubtful one keeps those
behind it off the screen: shown is the beginning for which the sum over its words of what they are above it is
greatest.

What is shown changes with the final only, also where results have long said something else: one in three
changes before it would be one too many, and no word comes sooner by them.

On 126 clips of LibriSpeech train-clean-100, 180 of ``train/kathleen`` and 160 of ``train/synthetic``, each in
quiet and in noise at 8 dB, with a result every 200 ms that takes 21, half of the words were shown within
364 ms of their end, nine tenths within 2.0 s, and 5.9 % of the words shown were taken back; on a processor
on which it takes 70 ms and comes every 450, 590 ms, 2.6 s, 5.8 %. Of all that is recognised it would be 28 to
32 %. The price chooses between soon and steady: with 1.6 s, 342 ms, 1.9 s, 6.8 %; with 2.2 s, 394 ms, 2.4 s,
5.2 %. So does what counts of a wait: with 1 s and a price of 1.8, 343 ms, 1.4 s, 7.8 %; with 1 s and a price
of 2.6, 391 ms, 1.6 s, 6.9 %. Every 300 instead of 200 ms, half of the words come 70 ms later.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from cosyd.asr.stable import common_prefix, keep_promise, split_words, word_key

PRICE_S = 1.9
UNNOTICED_S = 0.15  # of a wait
LEAST_WAIT_S, MOST_WAIT_S = 0.1, 0.4  # what is noticed of one; after a pause one does not know how long
LONGEST_ECHO = 8  # words that are said again at once
WORDS_BEFORE = 3  # whose probabilities tell about a word
_CERTAIN = 1e-4  # log-odds end here


class Weights(NamedTuple):
    """Of what tells that a word stays, in log-odds: of the least probability of its tokens (log-odds), of the
    least of the ``WORDS_BEFORE`` before it, of the one after it; that it is said again; that it echoes."""

    bias: float
    own: float
    before: float
    after: float
    again: float
    echo: float


# Logistic regression over words of partial results on 84, 100 and 130 of the clips above, of the last second.
# On clips that it was not fitted on, the area under the ROC curve is 0.908 (``own`` alone: 0.889). Nothing is
# gained by how many words follow, how long a word is, its place in the utterance, since when it has been said
# or the confidence of the whole; hardly anything by what other paths of the search say.
WEIGHTS = Weights(bias=0.20, own=0.71, before=0.17, after=0.11, again=0.77, echo=-3.1)
_NONE_BEFORE, _NONE_AFTER = 3.0, 0.0  # log-odds that stand for a missing word


class Screen:
    """Of one utterance."""

    def __init__(self) -> None:
        self._shown: list[str] = []
        self._keys: list[str] = []  # of the words of the newest result
        self._since: list[float] = []  # when each of them was first said, and by all results since
        self._newest = 0.0

    def show(self, text: str, sure: Sequence[float], promised: str, at: float) -> str:
        """What is shown after a result that heard ``at`` seconds of the utterance.

        ``text`` begins with what was ``promised``; ``sure`` is of the last so many of its words, empty where
        the recogniser does not tell: then all is shown.
        """
        if not sure:
            return text
        words, least = split_words(text), len(split_words(promised))
        keys = [word_key(word) for word in words]
        worth = self._worth(keys, sure, at)
        same = common_prefix(keys, [word_key(word) for word in self._shown])
        if same == len(self._shown) or same < least:
            end = max(same, least)
        else:  # what follows the words that differ is shown all the same
            kept = words[:least] + _respelt(self._shown[least:], words[least:])
            words, end = split_words(keep_promise(" ".join(kept), text)), len(kept)
        self._shown = words[: end + _best(worth[len(worth) - len(words) + end :])]
        return " ".join(self._shown)

    def _worth(self, keys: list[str], sure: Sequence[float], at: float) -> list[float]:
        """How far each word's probability of staying is above what it should be to be shown."""
        again = common_prefix(keys, self._keys)
        self._since = self._since[:again] + [at] * (len(keys) - again)
        wait = max(at - self._newest - UNNOTICED_S, LEAST_WAIT_S)
        self._keys, self._newest = keys, at
        waits = [min(max(wait, at - since), MOST_WAIT_S) for since in self._since]
        staying = probabilities(keys, sure, again)
        return [p - PRICE_S / (PRICE_S + wait) for p, wait in zip(staying, waits, strict=True)]


def probabilities(keys: Sequence[str], sure: Sequence[float], again: int) -> list[float]:
    """Of each word of a result, that it stays. ``keys`` of its words, ``sure`` as of ``Screen.show``; the
    first ``again`` words were said by the result before, too.

    What came before the words that ``sure`` is of was settled earlier, and is certain.
    """
    settled = max(0, len(keys) - len(sure))
    odds = [_log_odds(p) for p in (*[1.0] * settled, *sure)][-len(keys) :]
    return [
        _probability(
            WEIGHTS.bias
            + WEIGHTS.own * odds[i]
            + WEIGHTS.before * min(odds[max(0, i - WORDS_BEFORE) : i], default=_NONE_BEFORE)
            + WEIGHTS.after * (odds[i + 1] if i + 1 < len(odds) else _NONE_AFTER)
            + WEIGHTS.again * (i < again)
            + WEIGHTS.echo * _repeats(keys[: i + 1])
        )
        for i in range(len(keys))
    ]


def _respelt(shown: Sequence[str], words: Sequence[str]) -> list[str]:
    """The words that are shown, with case and marks of those in a newer result that are the same words: the
    last word of what was heard often ends a sentence that goes on."""
    spelt = list(shown)
    keys = [word_key(word) for word in shown], [word_key(word) for word in words]
    for i, j, size in SequenceMatcher(None, *keys, autojunk=False).get_matching_blocks():
        spelt[i : i + size] = words[j : j + size]
    return spelt


def _best(worth: Sequence[float]) -> int:
    """How many of these words: as many as make the sum greatest."""
    best, most, total = 0, 0.0, 0.0
    for count, each in enumerate(worth, start=1):
        total += each
        if total >= most:
            best, most = count, total
    return best


def _log_odds(probability: float) -> float:
    inside = min(max(probability, _CERTAIN), 1 - _CERTAIN)
    return math.log(inside / (1 - inside))


def _probability(log_odds: float) -> float:
    return 1 / (1 + math.exp(-log_odds))


def _repeats(keys: Sequence[str]) -> bool:
    """Whether the last words are the same as those before them."""
    return any(keys[-n:] == keys[-2 * n : -n] for n in range(1, min(LONGEST_ECHO, len(keys) // 2) + 1))
