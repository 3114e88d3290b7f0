"""What listen shows, without a terminal or sockets: messages in, text out."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console, RenderableType

from cosyd.cli.captions import LINGER_S, Captions
from cosyd.cli.describe import clock, describe
from cosyd.cli.meter import HOLD_S, LOWEST_DB, Meter, Meters, bar, complaints
from cosyd.client import AsrFinal, AsrPartial, Device, Doa, Health, Level, State, Vad, Wake

T = time.mktime((2026, 1, 2, 12, 30, 5, 0, 0, -1)) + 0.25


@pytest.fixture
def captions() -> Captions:
    captions = Captions()
    listening = State(
        source="mic",
        t_wall=T,
        status="listening",
        device="USB Mic",
        rate_hz=48_000,
        channels=4,
        sample=48_000,
    )
    (line,) = captions.accept(listening, 0.0)
    assert line.plain == "12:30:05  mic listening: USB Mic, 48000 Hz, 4 ch"
    return captions


def shown(what: RenderableType) -> list[str]:
    console = Console(file=io.StringIO(), width=100, color_system=None)
    console.print(what)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def partial(text: str, stable: str) -> AsrPartial:
    return AsrPartial(source="mic", utt=1, text=text, stable=stable, start=0.0, end=1.0)


def final(text: str, latency_ms: float = 80.0, source: str = "mic", end: float = 2.0) -> AsrFinal:
    return AsrFinal(
        source=source, t_wall=T, utt=1, text=text, start=0.5, end=end, reason="silence", latency_ms=latency_ms
    )


def test_before_anything_comes_it_says_what_it_waits_for() -> None:
    assert shown(Captions().draw()) == ["loading the models …"]


def test_partials_rewrite_one_line_with_the_stable_part_bright(captions: Captions) -> None:
    assert captions.accept(partial("the quick", ""), 1.0) == []
    assert captions.accept(partial("the quick brown", "the quick"), 2.0) == []
    assert shown(captions.draw())[1].rstrip() == "  the quick brown"
    view = captions.views["mic"]
    assert (view.stable, view.rest) == ("the quick", " brown")


def test_a_final_stays_and_empties_the_line(captions: Captions) -> None:
    captions.accept(partial("the quick", "the"), 1.0)
    (line,) = captions.accept(final("The quick brown fox."), 2.0)
    assert line.plain == "12:30:05  The quick brown fox.  80 ms"
    assert shown(captions.draw())[1].strip() == ""


def level() -> Level:
    return Level(source="mic", rms_db=(-80.0,), peak_db=(-70.0,))


def words(captions: Captions) -> str:
    return shown(captions.draw())[1].strip()


def test_words_wait_for_their_final_and_go_if_none_comes(captions: Captions) -> None:
    """An utterance whose last result is empty ends without one."""
    captions.accept(Vad(source="mic", event="start", utt=1), 1.0)
    captions.accept(partial("the", ""), 2.0)
    captions.accept(Vad(source="mic", event="end", utt=1), 3.0)
    captions.accept(level(), 3.0 + LINGER_S - 0.1)
    assert words(captions) == "the"
    captions.accept(level(), 3.0 + LINGER_S)
    assert words(captions) == ""


def test_words_stay_when_the_utterance_goes_on_after_a_pause(captions: Captions) -> None:
    captions.accept(Vad(source="mic", event="start", utt=1), 1.0)
    captions.accept(partial("the", ""), 2.0)
    captions.accept(Vad(source="mic", event="end", utt=1), 3.0)
    captions.accept(Vad(source="mic", event="start", utt=1), 3.5)
    captions.accept(level(), 3.0 + 2 * LINGER_S)
    assert words(captions) == "the"


def test_words_without_a_final_go_when_the_next_utterance_begins(captions: Captions) -> None:
    captions.accept(Vad(source="mic", event="start", utt=1), 1.0)
    captions.accept(partial("the", ""), 2.0)
    captions.accept(Vad(source="mic", event="end", utt=1), 3.0)
    captions.accept(Vad(source="mic", event="start", utt=2), 3.2)
    assert words(captions) == ""


def test_words_without_a_final_go_when_the_device_is_lost(captions: Captions) -> None:
    captions.accept(Vad(source="mic", event="start", utt=1), 1.0)
    captions.accept(partial("the", ""), 2.0)
    lost = State(source="mic", t_wall=T, status="lost", reason="unplugged")
    captions.accept(lost, 3.0)
    captions.accept(lost, 3.0 + LINGER_S)  # it is repeated
    assert words(captions) == ""


def test_with_several_sources_finals_name_theirs(captions: Captions) -> None:
    captions.accept(State(source="door", t_wall=T, status="listening"), 0.0)
    (line,) = captions.accept(final("Hello.", source="door"), 2.0)
    assert line.plain == "12:30:05  door  Hello.  80 ms"


def test_the_head_shows_level_and_speech(captions: Captions) -> None:
    captions.accept(Level(source="mic", rms_db=(-80.0, -30.0), peak_db=(-70.0, -20.0), vad_prob=0.93), 1.0)
    captions.accept(Vad(source="mic", event="start", prob=0.93), 1.0)
    head = shown(captions.draw())[0]
    assert head.startswith("● mic  ████")
    assert head.rstrip().endswith("-30.0 dB  speech 0.93")
    captions.accept(Vad(source="mic", event="end", prob=0.2), 2.0)
    assert shown(captions.draw())[0].startswith("○ mic")


def test_a_lost_device_is_told_and_shown(captions: Captions) -> None:
    captions.accept(Vad(source="mic", event="start", prob=0.9), 1.0)
    lost = State(source="mic", t_wall=T, status="lost", reason="unplugged")
    (line,) = captions.accept(lost, 2.0)
    assert line.plain == "12:30:05  mic the device is away: unplugged"
    assert captions.accept(lost, 3.0) == []  # repeated states are not news
    assert shown(captions.draw())[0].rstrip() == "○ mic  the device is away  unplugged"


def test_trouble_is_told_and_chatter_is_not(captions: Captions) -> None:
    def told(message: Health | Device) -> list[str]:
        return [line.plain for line in captions.accept(message, 1.0)]

    assert told(Health(source="_daemon", t_wall=T, code="x", severity="info", message="m")) == []
    assert told(Health(source="_daemon", t_wall=T, code="x", severity="error", message="m")) == [
        "12:30:05  _daemon m"
    ]
    assert told(Device(source="mic", t_wall=T, event="opened")) == []
    assert told(Device(source="mic", t_wall=T, event="gap", frames=480)) == [
        "12:30:05  mic gap of 480 frames"
    ]
    assert all("_daemon" not in line for line in shown(captions.draw()))


def test_text_cannot_steer_the_terminal(captions: Captions) -> None:
    (line,) = captions.accept(final("a\x1b[2Jb"), 1.0)
    assert "\x1b" not in line.plain
    assert "a�[2Jb" in line.plain


def test_the_summary() -> None:
    captions = Captions()
    assert captions.summary() == "0 utterances, 0 words in 0.0 s"
    captions.accept(final("One."), 1.0)
    assert captions.summary() == "1 utterance, 1 word in 2.0 s"
    for latency_ms in range(1, 100):
        captions.accept(final("two words", latency_ms, end=92.5), 1.0)
    assert captions.summary() == "100 utterances, 199 words in 1:32; latency P50 50 ms, P95 94 ms"


# --- meters --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rms_db", "peak_db", "drawn"),
    [
        (-120.0, -120.0, "          "),
        (-60.0, -60.0, "          "),
        (-30.0, -30.0, "█████▏    "),
        (-30.0, -12.0, "█████   ▏ "),
        (-27.0, -27.0, "█████▌    "),
        (0.0, 0.0, "██████████"),
        (3.0, 3.0, "██████████"),
    ],
)
def test_bars(rms_db: float, peak_db: float, drawn: str) -> None:
    assert bar(rms_db, peak_db, 10).plain.replace(" ", " ") == drawn


def test_bars_are_green_then_yellow_then_red() -> None:
    assert [span.style for span in bar(0.0, 0.0, 30).spans] == ["green", "yellow", "red"]


def test_a_peak_is_held_then_falls() -> None:
    meter = Meter()
    meter.accept(-40.0, -10.0, now=0.0)
    meter.accept(-40.0, -40.0, now=HOLD_S)
    assert meter.held_db == -10.0
    meter.accept(-40.0, -40.0, now=HOLD_S + 0.5)
    assert meter.held_db == pytest.approx(-20.0)
    meter.accept(-40.0, -40.0, now=HOLD_S + 1.0)
    assert meter.held_db == pytest.approx(-30.0)
    meter.accept(-40.0, -25.0, now=HOLD_S + 1.1)
    assert meter.held_db == -25.0
    meter.accept(LOWEST_DB, LOWEST_DB, now=1000.0)
    assert meter.held_db <= LOWEST_DB


def test_a_channel_without_any_signal_is_silent() -> None:
    """Field case 7: the first channel of an array carries zeros."""
    meters = Meters()
    meters.accept((-120.0, -60.0, -12.0), (-120.0, -55.0, -0.01), clipped=True, now=0.0)
    assert complaints(meters) == ["channel 0 silent"]
    first, second, third = (line.plain for line in meters.draw(10, 0.5))
    assert first.endswith("silent")
    assert second.endswith("-60.0 dB")
    assert third.endswith("too loud")
    meters.accept((-50.0, -60.0, -12.0), (-45.0, -55.0, -1.0), clipped=False, now=1.0)
    assert complaints(meters) == []


# --- lines of sub --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (final("Hello."), "asr.final    mic  0.50–2.00 s  Hello.  (silence, 80 ms)"),
        (partial("hello wor", "hello"), "asr.partial  mic  0.00–1.00 s  hello| wor"),
        (Vad(source="mic", event="start", utt=3, prob=0.8), "vad          mic  speech start, utterance 3, probability 0.80"),  # noqa: E501
        (Level(source="m", rms_db=(-20.0, -30.5), peak_db=(-1.0, -2.0), clipped=True), "level        m  -20.0 -30.5 dBFS, vad 0.00, clipped"),  # noqa: E501
        (State(source="m", status="lost", reason="gone"), "state        m  lost, gone"),
        (State(source="m", status="listening", device="D", rate_hz=16000, channels=1, format="s16"), "state        m  listening, D, 16000 Hz, 1 ch, s16"),  # noqa: E501
        (Health(source="m", code="c", severity="error", message="bad"), "health       m  error: bad [c]"),
        (Device(source="m", event="gap", frames=9), "device       m  gap, 9 frames"),
        (Wake(source="m", word="hey", start=1.0, end=1.5), "wake         m  hey at 1.00 s"),
        (Doa(source="m", azimuth_deg=90.4), "doa          m  90°"),
    ],
    ids=lambda value: value.split()[0] if isinstance(value, str) else "",
)  # fmt: skip
def test_every_type_has_a_line(message, line: str) -> None:
    assert describe(message).split("  ", 1)[1] == line


def test_the_clock_has_milliseconds() -> None:
    assert clock(T) == "12:30:05.250"
