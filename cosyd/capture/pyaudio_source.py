"""PortAudio through PyAudio: the only importer of it.

For machines where PyAudio is what works. A thread of this process copies each block from the library into
the ring; unlike with `portaudio` it needs the GIL for that, so blocks can be late. It reads only what is
there: a read that waits for a device that is gone never returns, nor does the closing of its stream.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

from cosyd.capture.device import DeviceInfo
from cosyd.capture.quiet import QuietStderr
from cosyd.errors import AudioError, DeviceBusy, DeviceLost, DeviceNotFound, UnsupportedFormat
from cosyd.ring import RingWriter
from cosyd.spec import AudioSpec, SampleFormat


class PyAudioSystem:
    """The library, initialised."""

    def __init__(self) -> None:
        try:
            import pyaudio
        except ImportError as error:
            raise AudioError(
                "sources of type pyaudio need PyAudio: pip install 'cosyd[pyaudio]', or use type portaudio"
            ) from error
        self._quiet = QuietStderr()
        self._module: Any = pyaudio
        self._library: Any = None

    def refresh(self) -> None:
        self.close()
        try:
            with self._quiet:
                self._library = self._module.PyAudio()
        except OSError as error:
            raise self._error(error, "looking for devices") from error

    def devices(self) -> list[DeviceInfo]:
        try:
            default = self._library.get_default_input_device_info()["index"]
        except OSError:  # there is none
            default = None
        try:
            found = [self._device(i, default) for i in range(self._library.get_device_count())]
        except OSError as error:
            raise self._error(error, "listing devices") from error
        return [device for device in found if device.channels > 0]

    def supports(self, device: DeviceInfo, spec: AudioSpec) -> bool:
        try:
            self._library.is_format_supported(
                float(spec.rate_hz),
                input_device=device.index,
                input_channels=spec.channels,
                input_format=self._format(spec),
            )
        except ValueError as error:
            translated = self._error(error, f"{device.name!r}")
            if isinstance(translated, UnsupportedFormat):
                return False
            raise translated from error
        return True

    def open(self, device: DeviceInfo, spec: AudioSpec, block_frames: int, ring: RingWriter) -> PyAudioStream:
        try:
            stream = self._library.open(
                rate=spec.rate_hz,
                channels=spec.channels,
                format=self._format(spec),
                input=True,
                input_device_index=device.index,
                frames_per_buffer=block_frames,
                start=False,
            )
        except (OSError, ValueError) as error:
            raise self._error(error, f"opening {device.name!r} at {spec}") from error
        pause_s = block_frames / spec.rate_hz / 2
        return PyAudioStream(stream, self._module.paInputOverflowed, block_frames, pause_s, ring)

    def close(self) -> None:
        library, self._library = self._library, None
        if library is not None:
            library.terminate()

    def abandon(self) -> None:
        self._quiet.restore()

    def _device(self, index: int, default: int | None) -> DeviceInfo:
        info = self._library.get_device_info_by_index(index)
        return DeviceInfo(
            index=index,
            name=str(info["name"]),
            host=str(self._library.get_host_api_info_by_index(info["hostApi"])["name"]),
            channels=int(info["maxInputChannels"]),
            default_rate_hz=round(info["defaultSampleRate"]),
            latency_s=float(info["defaultHighInputLatency"]),
            is_default=index == default,
        )

    def _format(self, spec: AudioSpec) -> int:
        module = self._module
        return int(
            {
                SampleFormat.S16: module.paInt16,
                SampleFormat.S24: module.paInt24,
                SampleFormat.S32: module.paInt32,
                SampleFormat.F32: module.paFloat32,
            }[spec.format]
        )

    def _error(self, error: OSError | ValueError, what: str) -> AudioError:
        """PyAudio puts PortAudio's code into either argument."""
        codes = [argument for argument in error.args if isinstance(argument, int)]
        code = codes[0] if codes else 0
        texts = [argument for argument in error.args if isinstance(argument, str)]
        message = f"{what}: {' '.join(texts)} (PortAudio {code})"
        module = self._module
        if code in (
            module.paInvalidSampleRate,
            module.paSampleFormatNotSupported,
            module.paInvalidChannelCount,
        ):
            return UnsupportedFormat(message)
        if code == module.paDeviceUnavailable:
            return DeviceBusy(f"{message}; another program holds it")
        if code == module.paInvalidDevice:
            return DeviceNotFound(message)
        return DeviceLost(message)


class PyAudioStream:
    """An open stream and the thread that empties it into the ring."""

    def __init__(
        self, stream: Any, overflowed: int, block_frames: int, pause_s: float, ring: RingWriter
    ) -> None:
        self._stream = stream
        self._overflowed = overflowed
        self._block_frames = block_frames
        self._pause_s = pause_s
        self._ring = ring
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._copy, name="pyaudio-read", daemon=True)

    def start(self) -> None:
        try:
            self._stream.start_stream()
        except OSError as error:
            raise DeviceLost(f"starting the device: {error}") from error
        self._thread.start()

    @property
    def active(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """The thread goes first: nobody may read from a stream that is being closed."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        stream, self._stream = self._stream, None
        if stream is not None:
            with contextlib.suppress(OSError):  # the device may be gone
                stream.close()

    def _copy(self) -> None:
        """Ends when asked to, or when the device fails: ``active`` tells."""
        while not self._closing.wait(self._pause_s):
            try:
                while self._stream.get_read_available() >= self._block_frames:
                    self._ring.write(self._stream.read(self._block_frames), time.monotonic_ns())
            except OSError as error:
                if self._overflowed not in error.args:
                    return
                # PyAudio throws the block away with the message; what was lost before it is not known.
                self._ring.count_overrun(self._block_frames)
