"""Echo cancellers to compare with, each as its makers mean it to be used: 16 kHz, no delay known beforehand.

* ours, and ours without the suppression of residual echo;
* WebRTC's AEC3 (``pywebrtc-audio``, the audio processing module of a browser);
* speexdsp's MDF canceller (``speexdsp-aec``; needs the system's libspeexdsp), 256 ms like ours.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import numpy as np

from cosyd.array.echo import EchoCanceller
from cosyd.bench.speech import Audio
from cosyd.spec import FRAME

Canceller = Callable[[Audio, Audio], Audio]  # microphone, reference [n] -> output [n], late by what it takes
_TEN_MS = FRAME.rate_hz // 100


def ours(microphone: Audio, reference: Audio, **settings: float) -> Audio:
    """Moved back by its delay, so that the output lies beside the input."""
    canceller = EchoCanceller(1, **settings)  # type: ignore[arg-type]
    rows = np.stack([microphone, reference])
    whole = rows.shape[1] // FRAME.block * FRAME.block
    blocks = [canceller.process(rows[:, at : at + FRAME.block])[0] for at in range(0, whole, FRAME.block)]
    out = np.concatenate(blocks)[canceller.delay :]
    return np.pad(out, (0, len(microphone) - len(out)))


def linear(microphone: Audio, reference: Audio) -> Audio:
    return ours(microphone, reference, suppress_db=0.0)


def webrtc(microphone: Audio, reference: Audio) -> Audio:
    import pywebrtc_audio

    canceller = pywebrtc_audio.EchoCanceller(sample_rate=FRAME.rate_hz, num_channels=1)
    pieces = [
        np.asarray(canceller.process(near.copy(), far.copy()))
        for near, far in zip(_frames(microphone), _frames(reference), strict=True)
    ]
    return np.pad(np.concatenate(pieces), (0, len(microphone) % _TEN_MS)).astype(np.float32)


def speex(microphone: Audio, reference: Audio) -> Audio:
    from speexdsp_aec import SpeexAec

    canceller = SpeexAec(sample_rate=FRAME.rate_hz, frame_ms=16, filter_tail_ms=256)
    out = np.frombuffer(canceller.process(_sixteen(microphone), _sixteen(reference)), np.int16)
    return np.pad(out.astype(np.float32) / 32_768, (0, len(microphone) - len(out)))


def _frames(audio: Audio) -> Audio:
    return audio[: len(audio) // _TEN_MS * _TEN_MS].reshape(-1, _TEN_MS)


def _sixteen(audio: Audio) -> np.ndarray:
    return (np.clip(audio, -1, 1) * 32_767).astype(np.int16)


def _nothing(microphone: Audio, reference: Audio) -> Audio:
    return microphone


def cancellers() -> dict[str, Canceller]:
    """Those that are installed."""
    found: dict[str, Canceller] = {"nothing": _nothing, "cosyd": ours, "cosyd, filter alone": linear}
    for module, name, work in (
        ("pywebrtc_audio", "WebRTC AEC3", webrtc),
        ("speexdsp_aec", "speexdsp", speex),
    ):
        if importlib.util.find_spec(module) is not None:
            found[name] = work
    return found
