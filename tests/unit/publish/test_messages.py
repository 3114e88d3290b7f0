"""The exact bytes on the wire, and what a reader tolerates."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosyd import types
from cosyd.errors import PublishError
from cosyd.publish.messages import (
    DAEMON,
    JOURNALLED_TYPES,
    AnyMessage,
    AsrFinal,
    AsrPartial,
    Backend,
    Device,
    Doa,
    Health,
    Level,
    State,
    Vad,
    Wake,
    Word,
    decode,
    encode,
    from_object,
    matches,
)
from cosyd.spec import FLOOR_DB

STAMPS = {"seq": 7, "n": 2, "kept": 6, "boot": "b0", "t_wall": 1.5, "t_mono_ns": 9, "sample": 16}
HEAD = '"v":1,"source":"mic","seq":7,"n":2,"kept":6,"boot":"b0","t_wall":1.5,"t_mono_ns":9,"sample":16'

WIRE: list[tuple[AnyMessage, str, str]] = [
    (
        AsrPartial(
            source="mic",
            utt=3,
            text="hé you",
            stable="hé",
            start=0.5,
            end=1.0,
            model="tiny",
            latency_ms=12.5,
            **STAMPS,
        ),
        "asr.partial.mic",
        '{"type":"asr.partial",' + HEAD + ',"utt":3,"text":"hé you","start":0.5,"end":1.0,"words":[],'
        '"conf":null,"model":"tiny","latency_ms":12.5,"pass":1,"stable":"hé"}',
    ),
    (
        AsrFinal(
            source="mic",
            utt=3,
            text='a "b"\n',
            start=0.5,
            end=1.0,
            words=(Word("a", 0.5, 0.75, 0.9), Word("b", 0.75, 1.0)),
            conf=0.5,
            reason="silence",
            language="zh",
            language_conf=0.875,
            **STAMPS,
        ),
        "asr.final.mic",
        '{"type":"asr.final",' + HEAD + ',"utt":3,"text":"a \\"b\\"\\n","start":0.5,"end":1.0,'
        '"words":[{"w":"a","start":0.5,"end":0.75,"conf":0.9},{"w":"b","start":0.75,"end":1.0,"conf":null}],'
        '"conf":0.5,"model":"","latency_ms":0.0,"pass":1,"reason":"silence","more":false,"direction":null,'
        '"written":null,"others":[],"language":"zh","language_conf":0.875}',
    ),
    (
        Vad(source="mic", event="start", utt=3, prob=0.75, **STAMPS),
        "vad.mic",
        '{"type":"vad",' + HEAD + ',"event":"start","utt":3,"prob":0.75}',
    ),
    (
        Level(source="mic", rms_db=(-20.5, -math.inf), peak_db=(-3.0, math.nan), vad_prob=0.25, **STAMPS),
        "level.mic",
        '{"type":"level",' + HEAD + ',"rms_db":[-20.5,-120.0],"peak_db":[-3.0,-120.0],'
        '"vad_prob":0.25,"clipped":false,"faults":[]}',
    ),
    (
        Doa(source="mic", azimuth_deg=90.0, **STAMPS),
        "doa.mic",
        '{"type":"doa",' + HEAD + ',"azimuth_deg":90.0,"elevation_deg":null,"conf":null,"track":0,"zone":""}',
    ),
    (
        Wake(source="mic", word="computer", start=1.0, end=1.5, conf=0.5, **STAMPS),
        "wake.mic",
        '{"type":"wake",' + HEAD + ',"word":"computer","start":1.0,"end":1.5,"conf":0.5}',
    ),
    (
        State(
            source="mic",
            status="listening",
            device="hw:1",
            rate_hz=48_000,
            channels=4,
            format="s16",
            model="tiny",
            backends={"vad": Backend("onnx-cpu", "no GPU")},
            **STAMPS,
        ),
        "state.mic",
        '{"type":"state",' + HEAD + ',"status":"listening","reason":"","device":"hw:1","rate_hz":48000,'
        '"channels":4,"format":"s16","muted":false,"model":"tiny",'
        '"backends":{"vad":{"name":"onnx-cpu","reason":"no GPU"}}}',
    ),
    (
        Health(source="mic", code="overrun", severity="warning", message="m", details={"a": 1}, **STAMPS),
        "health.mic",
        '{"type":"health",'
        + HEAD
        + ',"code":"overrun","severity":"warning","message":"m","details":{"a":1}}',
    ),
    (
        Device(source="mic", event="gap", frames=480, **STAMPS),
        "device.mic",
        '{"type":"device",' + HEAD + ',"event":"gap","device":"","frames":480,"reason":""}',
    ),
]


@pytest.mark.parametrize(("message", "topic", "text"), WIRE, ids=[topic for _, topic, _ in WIRE])
def test_bytes_are_pinned(message: AnyMessage, topic: str, text: str) -> None:
    assert encode(message) == (topic.encode(), text.encode())
    assert decode(text.encode()) == message
    assert from_object(json.loads(text)) == message


def test_what_a_newer_daemon_adds_is_ignored() -> None:
    plain = json.loads(WIRE[1][2]) | {"speaker": {"id": 3}, "reason": "a_rule_to_come"}
    message = decode(json.dumps(plain).encode())
    assert isinstance(message, AsrFinal)
    assert message.reason == "a_rule_to_come"


def test_what_an_older_daemon_lacks_has_a_default() -> None:
    message = decode(b'{"type":"state","source":"mic","status":"listening"}')
    assert message == State(source="mic", status="listening")


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff\xfe", b"[]", b"null", b"{", b'{"type":"nonsense","source":"mic"}', b'{"source":"mic"}',
     b'{"type":"asr.final","source":"mic"}', b'{"type":"vad","source":5,"event":"start"}', b"[" * 100_000],
)  # fmt: skip
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(PublishError, match="not a cosyd message"):
        decode(data)


@given(st.binary(max_size=200) | st.text(max_size=80).map(str.encode))
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    try:
        decode(data)
    except PublishError:
        return


any_float = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(any_float, max_size=4), any_float, any_float)
def test_no_nan_or_infinity_reaches_the_wire(levels: list[float], prob: float, conf: float) -> None:
    for message in (
        Level(source="mic", rms_db=tuple(levels), peak_db=tuple(levels), vad_prob=prob),
        Vad(source="mic", event="end", prob=prob),
        AsrFinal(source="mic", utt=1, text="", start=0, end=0, reason="", conf=conf),
    ):
        data = encode(message)[1]
        assert decode(data) == message
        json.loads(data, parse_constant=lambda name: pytest.fail(f"{name} on the wire"))


def test_the_journalled_types_are_named_in_one_place() -> None:
    kinds = {type(message).__struct_config__.tag for message, _, _ in WIRE if message.JOURNALLED}
    assert kinds == set(JOURNALLED_TYPES)


def test_levels_have_a_floor() -> None:
    assert Level(source="mic", rms_db=(-500.0,), peak_db=(0.0,)).rms_db == (FLOOR_DB,)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_times_must_be_finite(bad: float) -> None:
    with pytest.raises(ValueError, match="end must be a finite number"):
        AsrFinal(source="mic", utt=1, text="", start=0.0, end=bad, reason="silence")


def test_prefixes() -> None:
    assert matches("asr.final.mic", ("asr.",))
    assert matches("asr.final.mic", ("vad", "asr.final.mic"))
    assert matches("anything", ("",))
    assert not matches("asr.partial.mic", ("asr.final", "state"))
    assert not matches("asr.final.mic", ())


def test_the_daemons_own_source_cannot_be_configured() -> None:
    from pydantic import ValidationError

    from cosyd.config.schema import SourceConfig

    with pytest.raises(ValidationError):
        SourceConfig(name=DAEMON)


def test_a_level_reading_of_digital_silence() -> None:
    reading = types.Level(5, (-math.inf, -3.0), (-math.inf, 0.0), 0.1, clipped=True)
    assert Level.of("mic", reading) == Level(
        source="mic", sample=5, rms_db=(-120.0, -3.0), peak_db=(-120.0, 0.0), vad_prob=0.1, clipped=True
    )


def test_numpy_scalars_are_numbers() -> None:
    message = Level(
        source="mic",
        sample=np.int64(5),  # type: ignore[arg-type]
        rms_db=tuple(np.float32([-20.5, -np.inf])),
        peak_db=tuple(np.float64([-3.0, np.nan])),
        vad_prob=np.float32(0.25),  # type: ignore[arg-type]
    )
    assert decode(encode(message)[1]) == Level(
        source="mic", sample=5, rms_db=(-20.5, FLOOR_DB), peak_db=(-3.0, FLOOR_DB), vad_prob=0.25
    )


def test_details_take_anything() -> None:
    details = {"path": Path("/x"), "nan": math.nan, "error": ValueError("bad")}
    message = Health(source=DAEMON, code="c", severity="info", message="m", details=details)
    assert decode(encode(message)[1]).details == {"path": "/x", "nan": None, "error": "bad"}  # type: ignore[union-attr]
