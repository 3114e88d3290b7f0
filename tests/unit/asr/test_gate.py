"""The gate: hysteresis, shortest speech and silence, counted in blocks."""

import pytest

from cosyd.asr.gate import Gate, GateChange
from cosyd.config.schema import VadConfig


def changes(gate: Gate, probs: list[float]) -> list[tuple[int, GateChange]]:
    found = []
    for i, prob in enumerate(probs):
        if (change := gate.accept(prob)) is not None:
            found.append((i, change))
    return found


def test_opens_after_the_shortest_speech_and_closes_after_the_shortest_silence() -> None:
    gate = Gate(VadConfig(min_speech_ms=96, min_silence_ms=200))
    assert changes(gate, [0.9] * 10 + [0.1] * 10) == [(2, GateChange.OPENED), (16, GateChange.CLOSED)]


def test_a_burst_shorter_than_speech_does_not_open() -> None:
    assert changes(Gate(VadConfig(min_speech_ms=96)), ([0.9, 0.9] + [0.1] * 3) * 20) == []


def test_a_pause_shorter_than_silence_does_not_close() -> None:
    gate = Gate(VadConfig(min_silence_ms=200))
    assert changes(gate, [0.9] * 3 + ([0.1] * 6 + [0.9]) * 20) == [(2, GateChange.OPENED)]


@pytest.mark.parametrize(("prob", "is_open"), [(0.46, True), (0.44, False)])
def test_between_the_thresholds_speech_goes_on_and_does_not_begin(prob: float, is_open: bool) -> None:
    gate = Gate(VadConfig(threshold=0.6))
    assert changes(gate, [0.59] * 50) == []
    changes(gate, [0.61] * 5 + [prob] * 50)
    assert gate.is_open is is_open


def test_after_a_low_block_speech_has_to_reach_the_threshold_again() -> None:
    gate = Gate(VadConfig(threshold=0.6))
    changes(gate, [0.9] * 5 + [0.3])
    assert changes(gate, [0.55] * 20) == [(5, GateChange.CLOSED)]


def test_release_above_threshold_is_the_threshold() -> None:
    gate = Gate(VadConfig(threshold=0.5, release=0.9))
    assert changes(gate, [0.6] * 50) == [(2, GateChange.OPENED)]


def test_not_a_number_is_silence() -> None:
    gate = Gate(VadConfig())
    changes(gate, [0.9] * 5)
    assert changes(gate, [float("nan")] * 10) == [(6, GateChange.CLOSED)]


def test_new_thresholds_hold_from_the_next_block() -> None:
    gate = Gate(VadConfig(threshold=0.6))
    assert changes(gate, [0.5] * 10) == []
    gate.configure(VadConfig(threshold=0.45))
    assert changes(gate, [0.5] * 10) == [(2, GateChange.OPENED)]


def test_no_shortest_speech_opens_at_once() -> None:
    assert changes(Gate(VadConfig(min_speech_ms=0)), [0.9]) == [(0, GateChange.OPENED)]
