"""What the workers report, as subscribers read it."""

from __future__ import annotations

from cosyd import types
from cosyd.publish import convert
from cosyd.publish.messages import AsrFinal, AsrPartial, Device, Level, Vad, Word, decode, encode


def test_a_partial() -> None:
    partial = types.Partial(4, "hello wor", "hello", 48_000, 72_000, 0.5)
    assert convert.partial_message("mic", partial, 48_000, "tiny", 9.0) == AsrPartial(
        source="mic", sample=72_000, utt=4, text="hello wor", stable="hello", start=1.0, end=1.5, conf=0.5,
        model="tiny", latency_ms=9.0,
    )  # fmt: skip


def test_a_final() -> None:
    final = types.Final(
        4, "hello", 48_000, 72_000, "longest", 72_001, words=(types.Word("hello", 1.0, 1.5, 0.5),), more=True
    )
    assert convert.final_message("mic", final, 48_000, "tiny", 9.0) == AsrFinal(
        source="mic", sample=72_000, utt=4, text="hello", start=1.0, end=1.5,
        words=(Word("hello", 1.0, 1.5, 0.5),), model="tiny", latency_ms=9.0, reason="longest", more=True,
    )  # fmt: skip


def test_speech_events() -> None:
    assert convert.vad_message("mic", types.SpeechStarted(5, 2), 0.7) == Vad(
        source="mic", sample=5, event="start", utt=2, prob=0.7
    )
    assert convert.vad_message("mic", types.SpeechEnded(6, 2)).event == "end"


def test_levels_of_digital_silence() -> None:
    message = convert.level_message("mic", types.Level(5, (float("-inf"),), (float("-inf"),), 0.1, True))
    assert message == Level(
        source="mic", sample=5, rms_db=(-120.0,), peak_db=(-120.0,), vad_prob=0.1, clipped=True
    )


def test_device_events() -> None:
    opened = types.DeviceOpened(0, "USB", 48_000, 4, "s16")
    assert convert.device_message("mic", opened) == Device(source="mic", event="opened", device="USB")
    lost = convert.device_message("mic", types.DeviceLost(10, "unplugged"))
    assert (lost.event, lost.sample, lost.reason) == ("lost", 10, "unplugged")
    gap = convert.device_message("mic", types.GapRecorded(10, 480))
    assert (gap.event, gap.sample, gap.frames) == ("gap", 10, 480)
    assert convert.device_message("mic", types.SourceEnded(10)).event == "ended"


def test_health() -> None:
    message = convert.health_message(types.Health("x", "info", "fine", {"n": 1}))
    assert message.topic == "health._daemon"
    assert decode(encode(message)[1]) == message
