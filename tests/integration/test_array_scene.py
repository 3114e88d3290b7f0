"""A scene in a room, into a virtual microphone array, to text that tells where it was spoken.

PulseAudio → PortAudio's C callback → ring → array path → recogniser → ZeroMQ. The room is simulated.
"""

from __future__ import annotations

import numpy as np
import pytest
import soundfile
from listening import Listening, is_
from pulse import private_pulse
from scipy.signal import resample_poly

pytest.importorskip("pyroomacoustics", reason="the room is simulated with pyroomacoustics (cosyd[bench])")

from cosyd.array.geometry import Geometry, wrap
from cosyd.bench.scene import Room, Sound, render
from cosyd.config.schema import ArrayConfig
from cosyd.spec import FRAME

pytestmark = pytest.mark.timeout(400)

ARRAY = {"geometry": "square-4", "orientation_deg": 20.0}
AZIMUTH = 65.0  # in the device's frame
START_S = 150.0  # models are loaded; machines of tests are slow and shared


@pytest.fixture(scope="module")
def scene(models_dir, tmp_path_factory):
    """One voice two metres away at AZIMUTH, in a room with an RT60 of 0.2 s."""
    voice, rate_hz = soundfile.read(models_dir / "demo-speech" / "beckett.wav", dtype="float64")
    voice = resample_poly(voice, FRAME.rate_hz, rate_hz).astype(np.float32)[: 14 * FRAME.rate_hz]
    geometry = Geometry.of(ArrayConfig(**ARRAY))
    made = render(geometry, Room(rt60_s=0.2), [Sound(voice, ((0, AZIMUTH),), 2.0, 5.0)], hum_snr_db=25.0)
    path = tmp_path_factory.mktemp("scene") / "scene.wav"
    made.write(path)
    return path


def test_a_voice_in_a_room_becomes_text_with_its_direction(scene):
    with private_pulse() as pulse:
        pulse.plug_in("array")
        shape = {"rate_hz": FRAME.rate_hz, "channels": 4, "array": ARRAY}
        source = {"name": "mic", "device": "array", **shape}
        with Listening({"sources": [source], "asr": {"partial_ms": 0}}, environment=pulse.environment) as run:
            run.until(is_("state", status="listening"), START_S)
            with pulse.playing(scene, "array"):
                run.until(is_("asr.final"), START_S)
        expected = AZIMUTH + ARRAY["orientation_deg"]
        finals = run.of("asr.final")
        assert finals[0]["text"]
        assert abs(wrap(finals[0]["direction"]["azimuth_deg"] - expected)) < 10
        told = [m for m in run.of("doa") if m["sample"] <= finals[0]["sample"]]
        near = [m for m in told if abs(wrap(m["azimuth_deg"] - expected)) < 15]
        assert len(told) >= 5
        assert len(near) >= 0.7 * len(told), [m["azimuth_deg"] for m in told]
        assert {m["source"] for m in told} == {"mic"}
        assert finals[0]["direction"]["track"] in {m["track"] for m in near}
