"""A private PulseAudio daemon with virtual microphones, for tests that go through real PortAudio.

A virtual microphone is the monitor of a null sink: what is played into the sink is what it hears. PortAudio
reaches it through ALSA's pulse plugin, by a configuration of its own (``environment``), which must be in a
process's environment before it loads PortAudio: run captures in child processes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

START_S = 15.0  # only against waiting for ever
NEEDED = ("pulseaudio", "pactl", "paplay")
PLUGIN = "libasound_module_pcm_pulse.so"
SYSTEM_ALSA = Path("/usr/share/alsa/alsa.conf")

ASOUNDRC = """\
<{system}>
pcm.{name} {{
    type pulse
    server "{server}"
    device "{source}"
    hint {{ show on description "{name}" }}
}}
"""


class Pulse:
    """The daemon. Made by :func:`private_pulse`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = f"unix:{folder}/native"
        self._alsa = folder / "asoundrc"
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("PULSE_", "ALSA_"))},
            "HOME": str(folder),  # its cookie and settings go there
            "XDG_RUNTIME_DIR": str(folder),
            "PULSE_RUNTIME_PATH": str(folder),
            "PULSE_SERVER": self.server,
            "ALSA_CONFIG_PATH": str(self._alsa),
            "JACK_NO_START_SERVER": "1",
        }
        self._daemon: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        protocol = f"module-native-protocol-unix socket={self.folder}/native auth-anonymous=1"
        self._daemon = subprocess.Popen(
            ["pulseaudio", "--system=false", "--daemonize=no", "-n", "--exit-idle-time=-1",
             "--use-pid-file=no", f"--log-target=file:{self.folder}/log", "-L", protocol],
            env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + START_S
        while not self._answers():
            assert self._daemon.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, "pulseaudio does not answer"
            time.sleep(0.05)

    def stop(self) -> None:
        if self._daemon is not None:
            self._daemon.terminate()
            try:
                self._daemon.wait(START_S)
            except subprocess.TimeoutExpired:
                self._daemon.kill()
                self._daemon.wait()
            self._daemon = None

    def _answers(self) -> bool:
        answer = subprocess.run(["pactl", "info"], env=self.environment, capture_output=True, check=False)
        return answer.returncode == 0

    def pactl(self, *arguments: str) -> str:
        answer = subprocess.run(
            ["pactl", *arguments], env=self.environment, capture_output=True, text=True, check=True
        )
        return answer.stdout.strip()

    def plug_in(self, name: str, *, channels: int = 4, rate_hz: int = 48_000) -> str:
        """A new virtual microphone of 2 or 4 channels, listed as ``name``. Returns its module."""
        module = self.pactl(
            "load-module", "module-null-sink", f"sink_name={name}", f"rate={rate_hz}",
            f"channels={channels}", f"channel_map={_positions(channels)}", "format=s32le",
        )  # fmt: skip
        source = f"{name}.monitor"
        text = ASOUNDRC.format(system=SYSTEM_ALSA, name=name, server=self.server, source=source)
        self._alsa.write_text(text)
        return module

    def unplug(self, module: str) -> None:
        self.pactl("unload-module", module)

    @contextlib.contextmanager
    def playing(self, recording: Path, sink: str, *, channels: int = 4) -> Iterator[None]:
        """``recording`` into ``sink``, channel by channel, until its end or that of the context."""
        player = subprocess.Popen(
            ["paplay", f"--device={sink}", f"--channel-map={_positions(channels)}", str(recording)],
            env=self.environment,
        )
        try:
            yield
        finally:
            player.terminate()
            player.wait(START_S)


def _positions(channels: int) -> str:
    """The map that ALSA's plugin assumes: with another, PulseAudio would mix the channels, or mute them."""
    return ",".join(("front-left", "front-right", "rear-left", "rear-right")[:channels])


def write_tones(path: Path, tones_hz: list[int], seconds: float, rate_hz: int = 48_000) -> None:
    """A WAV of one tone a channel (0: silence), at half of full scale. The channels have no positions."""
    t = np.arange(int(seconds * rate_hz))[:, None] / rate_hz
    samples = 0.5 * np.sin(2 * np.pi * np.array(tones_hz) * t)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(len(tones_hz))
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes((samples * 32767).astype("<i2").tobytes())


def why_not() -> str | None:
    """What is missing on this machine; None if nothing is."""
    if sys.platform != "linux":
        return "PulseAudio null sinks are for Linux"
    if missing := [tool for tool in NEEDED if shutil.which(tool) is None]:
        return f"not installed: {', '.join(missing)} (apt install pulseaudio pulseaudio-utils)"
    if not SYSTEM_ALSA.exists() or not any(Path("/usr/lib").glob(f"**/alsa-lib/{PLUGIN}")):
        return "not installed: ALSA's pulse plugin (apt install libasound2-plugins)"
    return None


@contextlib.contextmanager
def private_pulse() -> Iterator[Pulse]:
    """Skips, visibly, where PulseAudio is not installed. Nothing is left behind."""
    if reason := why_not():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="cosyd-pulse-") as folder:  # short: a socket's path has 108 bytes
        pulse = Pulse(Path(folder))
        try:
            pulse.start()
            yield pulse
        finally:
            pulse.stop()
