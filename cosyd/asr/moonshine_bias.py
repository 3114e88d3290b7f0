"""Hotwords for a decoder that writes text: which token brings how much bonus, after what was said so far.

The phrases are patterns of an Aho-Corasick automaton (Aho & Corasick 1975) over the *letters* of the text,
not over tokens: however a word is cut into tokens, in whatever case, at the beginning of a sentence or inside
it, with a comma or a hyphen in the middle, it is the same phrase. Letters are the bytes of case-folded UTF-8;
all that is neither letter nor digit is one boundary, and a pattern begins and ends with a boundary, so that a
phrase begins and ends where words do.

A phrase of ``n`` tokens (in the vocabulary's own spelling) and a score ``s`` is worth ``n * s``, earned in
equal shares by its letters. As long as a phrase is not complete its share is only lent: where the text goes
on otherwise, the step takes it back (the failure arcs of the automaton do that). So the sum over a finished
text is the sum over the phrases in it, and the shares on the way decide what a search looks at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosyd.asr.tokenizer import EOS, Tokenizer

STATES_KEPT = 32  # of 0.26 MB each; the paths of a beam are in a few at a time
_BOUNDARY = 0  # no letter of any text
ROOT, START = 0, 1  # inside a word that is no hotword; at a boundary


_LETTERS = bytes(byte if byte >= 0x80 or chr(byte).isalnum() else _BOUNDARY for byte in range(256))
_BOUNDARIES = re.compile(rb"\0+")


def letters(text: bytes) -> bytes:
    """The letters of case-folded text; every run of other characters is one boundary."""
    return _BOUNDARIES.sub(b"\0", text.translate(_LETTERS))


def _folded(piece: bytes) -> bytes:
    try:
        return piece.decode().replace("▁", " ").casefold().encode()
    except UnicodeDecodeError:  # a part of a character
        return piece


# --- the vocabulary as a tree of letters ---------------------------------------------------------------


@dataclass(slots=True)
class _Branch:
    """``tokens`` end here; ``children`` by the next letter."""

    tokens: list[int] = field(default_factory=list)
    children: dict[int, _Branch] = field(default_factory=dict)


class Spelling:
    """All tokens of a vocabulary by their letters. Made once, when the first hotwords come."""

    def __init__(self, vocabulary: Tokenizer) -> None:
        self.size = len(vocabulary)
        self.root = _Branch()
        self.opening = np.zeros(self.size, np.bool_)  # tokens that begin with a boundary
        self.silent: list[int] = []  # tokens without letters: control symbols
        self.crossing: list[tuple[int, bytes]] = []  # tokens with a boundary inside, and their letters
        for token in range(self.size):
            self._add(token, letters(_folded(vocabulary.piece(token))))
        self.ends = self.opening.copy()
        self.ends[EOS] = True

    def _add(self, token: int, spelled: bytes) -> None:
        if not spelled:
            self.silent.append(token)
            return
        self.opening[token] = spelled[0] == _BOUNDARY
        if _BOUNDARY in spelled[1:]:
            self.crossing.append((token, spelled))
            return
        branch = self.root
        for letter in spelled:
            branch = branch.children.setdefault(letter, _Branch())
        branch.tokens.append(token)


# --- the phrases as an automaton -----------------------------------------------------------------------


@dataclass(slots=True)
class _Node:
    """``lent``: what a text that has come so far has been lent. ``earned``: what it completes is worth."""

    bound: bool  # its last letter is a boundary
    lent: float = 0.0
    earned: float = 0.0
    fail: int = ROOT
    children: dict[int, int] = field(default_factory=dict)


class _Automaton:
    """States are numbers. Every pattern begins with a boundary and ends with one."""

    def __init__(self, patterns: Sequence[tuple[Sequence[int], float]]) -> None:
        """Each pattern with what it is worth."""
        self._nodes = [_Node(bound=False, children={_BOUNDARY: START}), _Node(bound=True)]
        for pattern, worth in patterns:
            self._add(pattern[1:], worth)
        self._link()

    def _add(self, pattern: Sequence[int], worth: float) -> None:
        at = START
        for i, letter in enumerate(pattern, start=1):
            children = self._nodes[at].children
            if letter not in children:
                self._nodes.append(_Node(bound=letter == _BOUNDARY))
                children[letter] = len(self._nodes) - 1
            at = children[letter]
            if i < len(pattern):
                share = i / (len(pattern) - 1)
                self._nodes[at].lent = max(self._nodes[at].lent, share * worth)
        self._nodes[at].earned = max(self._nodes[at].earned, worth)

    def _link(self) -> None:
        """Failure arcs, breadth first. What the longest suffix is lent and has completed counts as well."""
        queue = [START]
        for at in queue:
            node = self._nodes[at]
            for letter, child in node.children.items():
                into = self._nodes[child]
                into.fail = self._follow(node.fail, letter)
                into.earned += self._nodes[into.fail].earned
                into.lent = max(into.lent, self._nodes[into.fail].lent)
                queue.append(child)

    def lent(self, state: int) -> float:
        return self._nodes[state].lent

    def step(self, state: int, letter: int) -> tuple[int, float]:
        """The next state and what was earned on the way to it."""
        if letter == _BOUNDARY and self._nodes[state].bound:
            return state, 0.0  # one boundary, however many signs
        state = self._follow(state, letter)
        return state, self._nodes[state].earned

    def walk(self, state: int, spelled: Sequence[int]) -> tuple[int, float]:
        """All of these letters."""
        total = 0.0
        for letter in spelled:
            state, earned = self.step(state, letter)
            total += earned
        return state, total

    def _follow(self, state: int, letter: int) -> int:
        while letter not in self._nodes[state].children:
            if state == ROOT:
                return ROOT
            state = self._nodes[state].fail
        return self._nodes[state].children[letter]


# --- both together -------------------------------------------------------------------------------------


class _Steps(NamedTuple):
    """What each token does in one state: ``bonus`` and ``next`` state, [vocabulary] both."""

    bonus: NDArray[np.float32]
    next: NDArray[np.int32]


class Bias:
    """The hotwords of one list, compiled for one vocabulary. Immutable but for its cache of states."""

    start = START

    def __init__(self, spelling: Spelling, phrases: Sequence[tuple[str, float]]) -> None:
        """Phrases that have letters, with what each is worth."""
        patterns = [(_pattern(phrase), worth) for phrase, worth in phrases]
        self._automaton = _Automaton(patterns)
        self._spelling = spelling
        self._steps: dict[int, _Steps] = {}

    def bonus(self, state: int) -> NDArray[np.float32]:
        """float32 [vocabulary]: what each token brings after this state. EOS takes back what is only lent."""
        return self._of(state).bonus

    def lent(self, state: int) -> float:
        """What a text in this state has been lent."""
        return self._automaton.lent(state)

    def budget(self, state: int) -> NDArray[np.float32]:
        """float32 [vocabulary]: what a text that goes on so may have got for phrases that are not settled."""
        lent = np.float32(self.lent(state))
        return np.asarray(
            self.bonus(state) + np.where(self.ends, lent - np.float32(self.settled(state)), lent)
        )

    def settled(self, state: int) -> float:
        """What is earned for good where the word ends here."""
        return self._automaton.step(state, _BOUNDARY)[1]

    @property
    def ends(self) -> NDArray[np.bool_]:
        """bool [vocabulary]: the tokens with which the word before them ends, EOS included."""
        return self._spelling.ends

    def following(self, state: int) -> NDArray[np.int32]:
        """int32 [vocabulary]: the states that tokens lead to."""
        return self._of(state).next

    def next(self, state: int, token: int) -> int:
        return int(self._of(state).next[token])

    def after(self, tokens: Sequence[int]) -> int:
        """The state after these tokens from the beginning."""
        state = START
        for token in tokens:
            state = self.next(state, token)
        return state

    def _of(self, state: int) -> _Steps:
        steps = self._steps.pop(state, None) or self._explore(state)
        self._steps[state] = steps  # the newest last
        if len(self._steps) > STATES_KEPT:
            del self._steps[next(iter(self._steps))]
        return steps

    def _explore(self, state: int) -> _Steps:
        """Tokens that lead out of every phrase all do the same; the others are found along both trees."""
        automaton, spelling = self._automaton, self._spelling
        lent = automaton.lent(state)
        completed = automaton.step(state, _BOUNDARY)[1]
        bonus = np.where(spelling.opening, completed - lent, -lent).astype(np.float32)
        following = np.full(spelling.size, ROOT, np.int32)
        for token, into, earned in self._known(state):
            bonus[token] = earned + automaton.lent(into) - lent
            following[token] = into
        bonus[spelling.silent], following[spelling.silent] = 0.0, state
        bonus[EOS] = completed - lent
        return _Steps(bonus, following)

    def _known(self, state: int) -> Iterator[tuple[int, int, float]]:
        """Tokens that stay in a phrase or at a boundary, the state they lead to, and what they complete."""
        step = self._automaton.step
        todo = [(self._spelling.root, state, 0.0)]
        while todo:
            branch, at, before = todo.pop()
            for letter, child in branch.children.items():
                into, earned = step(at, letter)
                if into != ROOT:
                    yield from ((token, into, before + earned) for token in child.tokens)
                    todo.append((child, into, before + earned))
        for token, spelled in self._spelling.crossing:
            yield token, *self._automaton.walk(state, spelled)


def _pattern(phrase: str) -> bytes:
    return letters(f" {phrase.casefold()} ".encode())
