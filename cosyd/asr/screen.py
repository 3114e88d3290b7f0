"""What of an utterance is on the screen: words that will most likely stay.

A partial result is a guess on audio that ends in the middle of a word, and one in four of its last words is
another a moment later. So a word that is new is shown when the recogniser is sure of it, of the very last
somewhat surer, or when the next result says it again; and what is shown is changed only when ``CHANGED_BY``
results in a row agree on the change: most changes are taken back, and those that are not come with the final.

Of 24 clips of LibriSpeech train-clean-100 in kitchen noise at 12 dB (9.6 % of the words of finals are wrong),
the same results shown in different ways: 9.1 % of the words shown are taken back, two thirds of them by the
final, and half of the words are shown within 481 ms of their end. With 0.7 and 0.8 instead of ``SURE`` and
``SURE_LAST`` 10.1 % and 426 ms, with 0.9 and 0.95 8.9 % and 539 ms, when two results may change what is shown
9.7 % and 484 ms, when a new word needs three 6.8 % and 597 ms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from cosyd.asr.stable import common_prefix, keep_promise, split_words, word_key

SURE = 0.8  # least probability of every token of a new word that is shown at once
SURE_LAST = 0.9  # ... of the last word, which may be cut off
CHANGED_BY = 4  # results that agree on a change
LONGEST_ECHO = 8  # words that are said again at once


class Screen:
    """Of one utterance."""

    def __init__(self) -> None:
        self._shown: list[str] = []
        self._heard: deque[list[str]] = deque(
            maxlen=CHANGED_BY - 1
        )  # keys of the words of the newest results

    def show(self, text: str, sure: Sequence[float], promised: str) -> str:
        """What is shown after a result. ``text`` begins with what was ``promised``; ``sure`` is of the last
        so many of its words, empty where the recogniser does not tell: then all is shown."""
        if not sure:
            return text
        words, least = split_words(text), len(split_words(promised))
        keys = [word_key(word) for word in words]
        twice, agreed = self._agreed(keys, 2), max(self._agreed(keys, CHANGED_BY), least)
        same = common_prefix(keys, [word_key(word) for word in self._shown])
        self._heard.append(keys)
        if same == len(self._shown) or same < agreed:
            self._shown = words[: _believable(keys, sure, max(same, agreed), twice)]
        else:  # another result may have it as it was; what follows is shown all the same
            kept = words[:least] + self._shown[least:]
            whole = split_words(keep_promise(" ".join(kept), text))
            self._shown = whole[: _believable([word_key(word) for word in whole], sure, len(kept), twice)]
        return " ".join(self._shown)

    def _agreed(self, keys: Sequence[str], results: int) -> int:
        """How many words from the beginning the newest so many results, this one included, have in common."""
        before = list(self._heard)[1 - results :]
        if len(before) < results - 1:
            return 0
        return min(common_prefix(list(keys), other) for other in before)


def _believable(keys: Sequence[str], sure: Sequence[float], end: int, twice: int) -> int:
    """How many words may be shown, if the first ``end`` are; the first ``twice`` were said by two results.

    A first word alone is what most sentences begin with, rather than what was heard; and who has lost the
    thread repeats himself, and is sure of it.
    """
    last = len(keys) - 1
    while end <= last:
        place = end - last - 1  # from the end
        wanted = SURE_LAST if end == last else SURE
        sure_enough = -place <= len(sure) and sure[place] >= wanted
        if end >= twice and (last == 0 or not sure_enough or _repeats(keys[: end + 1])):
            break
        end += 1
    return end


def _repeats(keys: Sequence[str]) -> bool:
    """Whether the last words are the same as those before them."""
    return any(keys[-n:] == keys[-2 * n : -n] for n in range(1, min(LONGEST_ECHO, len(keys) // 2) + 1))
