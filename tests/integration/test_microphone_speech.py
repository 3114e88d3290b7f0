"""From a microphone to text on a socket: PulseAudio → PortAudio's C callback → ring → pipeline → ZeroMQ.

The microphone is a virtual array of four channels at 48 kHz, whose first channel is silent, as on devices
that reserve it. What is played to it is a person's voice.
"""

from __future__ import annotations

import wave

import numpy as np
import pytest
import soundfile
from listening import Listening, is_
from pulse import private_pulse
from scipy.signal import resample_poly

pytestmark = pytest.mark.timeout(180)

RATE_HZ = 48_000


@pytest.fixture(scope="module")
def pulse():
    with private_pulse() as pulse:
        yield pulse


@pytest.fixture(scope="module")
def speech(models_dir, tmp_path_factory):
    """The voice on channels 1 to 3, nothing on channel 0."""
    voice, rate_hz = soundfile.read(models_dir / "demo-speech" / "beckett.wav", dtype="float64")
    voice = resample_poly(voice, RATE_HZ, rate_hz)
    frames = np.zeros((len(voice), 4), "<i2")
    frames[:, 1:] = np.round(np.clip(voice, -1, 1) * 32_000)[:, None]
    path = tmp_path_factory.mktemp("speech") / "array.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(4)
        file.setsampwidth(2)
        file.setframerate(RATE_HZ)
        file.writeframes(frames.tobytes())
    return path


def microphone(pulse, name):
    # Through ALSA's plugin the device takes any rate and channel count: name those of the array.
    shape = {"rate_hz": RATE_HZ, "channels": 4, "channel_map": [1, 2, 3]}
    source = {"name": "mic", "device": name, **shape}
    return Listening({"sources": [source]}, environment=pulse.environment)


def test_speech_into_an_array_becomes_text(pulse, speech):
    pulse.plug_in("array")
    with microphone(pulse, "array") as run:
        state = run.until(is_("state", status="listening"))
        assert (state["rate_hz"], state["channels"]) == (RATE_HZ, 4)
        with pulse.playing(speech, "array"):
            run.until(lambda m: m["type"] == "asr.final" and "better" in m["text"].lower())
    text = " ".join(m["text"] for m in run.of("asr.final")).lower()
    assert all(phrase in text for phrase in ("tried", "matter", "again", "better")), text
    assert {m["reason"] for m in run.of("asr.final")} == {"silence"}
    level = max(run.of("level"), key=lambda m: m["peak_db"][1])
    assert level["peak_db"][0] == -120.0
    assert level["peak_db"][1] > -20.0


def test_unplugged_in_a_sentence_and_plugged_in_again(pulse, speech):
    module = pulse.plug_in("array2")
    with microphone(pulse, "array2") as run:
        run.until(is_("state", status="listening"))
        with pulse.playing(speech, "array2"):
            run.until(is_("asr.partial"))
            pulse.unplug(module)
            final = run.until(is_("asr.final"))
            assert final["reason"] == "device_lost"
            lost = run.until(is_("state", status="lost"))
        pulse.plug_in("array2")
        run.until(lambda m: is_("state", status="listening")(m) and m["seq"] > lost["seq"])
        gap = run.until(is_("device", event="gap"))
        opened = [m for m in run.of("device") if m["event"] == "opened"]
        assert opened[1]["sample"] == gap["sample"] + gap["frames"]
        with pulse.playing(speech, "array2"):
            after = run.until(lambda m: m["type"] == "asr.final" and m["utt"] > final["utt"])
        assert after["start"] > opened[1]["sample"] / RATE_HZ
