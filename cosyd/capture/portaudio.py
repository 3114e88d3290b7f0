"""PortAudio through sounddevice: the only importer of it.

The audio thread never enters Python. PortAudio is given the ring's C callback, which copies a block and
returns; a Python callback would have to wait for the GIL (docs/benchmarks/capture.md has the difference).
sounddevice's own streams only take Python callables, so the stream is opened through the cffi layer on
which they are built.
"""

from __future__ import annotations

import atexit
import errno
import os
from typing import Any

from cosyd.capture.device import DeviceInfo
from cosyd.capture.quiet import QuietStderr
from cosyd.errors import AudioError, DeviceBusy, DeviceLost, DeviceNotFound, UnsupportedFormat
from cosyd.ring import RingWriter
from cosyd.spec import AudioSpec, SampleFormat

# Room in the device's own buffer. It costs no latency (a block is passed on once it is full), and a busy
# machine may keep the audio thread from running for some tens of milliseconds.
LATENCY_S = 0.1


class PortAudio:
    """The library. It looks for devices only when it is initialised, so ``refresh`` does that anew."""

    def __init__(self) -> None:
        self._quiet = QuietStderr()
        with self._quiet:
            try:
                import sounddevice
            except OSError as error:
                raise AudioError(
                    f"PortAudio is not installed ({error}); apt install libportaudio2"
                ) from error
        # Its handler would end the library at exit, which blocks if a driver hangs; close() does it here.
        atexit.unregister(sounddevice._exit_handler)
        self._sounddevice = sounddevice
        self._lib: Any = sounddevice._lib
        self._ffi: Any = sounddevice._ffi
        if sounddevice._initialized:  # importing it did that; here refresh() does
            sounddevice._terminate()
        self._initialized = False

    def refresh(self) -> None:
        self.close()
        with self._quiet:
            self._check(self._lib.Pa_Initialize(), "looking for devices")
        self._initialized = True

    def devices(self) -> list[DeviceInfo]:
        default = self._lib.Pa_GetDefaultInputDevice()
        count = self._check(self._lib.Pa_GetDeviceCount(), "listing devices")
        found = [self._device(index, default) for index in range(count)]
        return [device for device in found if device.channels > 0]

    def supports(self, device: DeviceInfo, spec: AudioSpec) -> bool:
        with self._quiet:
            code = self._lib.Pa_IsFormatSupported(
                self._parameters(device, spec), self._ffi.NULL, float(spec.rate_hz)
            )
        if code == self._lib.paFormatIsSupported:
            return True
        error = self.translate(code, f"{device.name!r}")
        if isinstance(error, UnsupportedFormat):
            return False
        raise error

    def open(
        self, device: DeviceInfo, spec: AudioSpec, block_frames: int, ring: RingWriter
    ) -> PortAudioStream:
        pointer = self._ffi.new("PaStream**")
        with self._quiet:
            code = self._lib.Pa_OpenStream(
                pointer,
                self._parameters(device, spec),
                self._ffi.NULL,
                float(spec.rate_hz),
                block_frames,
                self._lib.paClipOff,
                self._ffi.cast("PaStreamCallback *", ring.callback_address),
                self._ffi.cast("void *", ring.userdata_address),
            )
        self._check(code, f"opening {device.name!r} at {spec}")
        return PortAudioStream(self, pointer[0], device)

    def close(self) -> None:
        if self._initialized:
            self._initialized = False
            with self._quiet:
                self._check(self._lib.Pa_Terminate(), "ending PortAudio")

    def abandon(self) -> None:
        self._quiet.restore()

    # --- for the stream --------------------------------------------------------------------------------

    def start_stream(self, stream: Any, what: str) -> None:
        self._check(self._lib.Pa_StartStream(stream), what)

    def stream_active(self, stream: Any) -> bool:
        return bool(self._lib.Pa_IsStreamActive(stream) == 1)

    def close_stream(self, stream: Any) -> None:
        """Errors are of no interest: the device may be gone, and what matters is that it is closed."""
        self._lib.Pa_AbortStream(stream)
        self._lib.Pa_CloseStream(stream)

    # --- translation -----------------------------------------------------------------------------------

    def _device(self, index: int, default: int) -> DeviceInfo:
        info = self._lib.Pa_GetDeviceInfo(index)
        host = self._lib.Pa_GetHostApiInfo(info.hostApi)
        return DeviceInfo(
            index=index,
            name=self._text(info.name),
            host=self._text(host.name),
            channels=info.maxInputChannels,
            default_rate_hz=round(info.defaultSampleRate),
            latency_s=info.defaultHighInputLatency,
            is_default=index == default,
        )

    def _parameters(self, device: DeviceInfo, spec: AudioSpec) -> Any:
        latency_s = max(device.latency_s, LATENCY_S)
        sample_format = {
            SampleFormat.S16: self._lib.paInt16,
            SampleFormat.S24: self._lib.paInt24,
            SampleFormat.S32: self._lib.paInt32,
            SampleFormat.F32: self._lib.paFloat32,
        }[spec.format]
        return self._ffi.new(
            "PaStreamParameters*", (device.index, spec.channels, sample_format, latency_s, self._ffi.NULL)
        )

    def _check(self, code: int, what: str) -> int:
        if code < 0:
            raise self.translate(code, what)
        return code

    def translate(self, code: int, what: str) -> AudioError:
        """PortAudio's error ``code`` while ``what`` was being done, as the most specific of ours."""
        lib = self._lib
        text = self._text(lib.Pa_GetErrorText(code))
        if code == lib.paUnanticipatedHostError:
            text = self._text(lib.Pa_GetLastHostErrorInfo().errorText) or text
        message = f"{what}: {text} (PortAudio {code})"
        if code in (lib.paInvalidSampleRate, lib.paSampleFormatNotSupported, lib.paInvalidChannelCount):
            return UnsupportedFormat(message)
        if code == lib.paDeviceUnavailable or os.strerror(errno.EBUSY) in text:
            return DeviceBusy(f"{message}; another program holds it")
        if code == lib.paInvalidDevice:
            return DeviceNotFound(message)
        return DeviceLost(message)

    def _text(self, pointer: Any) -> str:
        return str(self._ffi.string(pointer).decode("utf-8", "replace")) if pointer else ""


class PortAudioStream:
    """An open stream whose blocks go straight into the ring, in C."""

    def __init__(self, system: PortAudio, stream: Any, device: DeviceInfo) -> None:
        self._system = system
        self._stream = stream
        self._device = device

    def start(self) -> None:
        self._system.start_stream(self._stream, f"starting {self._device.name!r}")

    @property
    def active(self) -> bool:
        return self._stream is not None and self._system.stream_active(self._stream)

    def close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            self._system.close_stream(stream)
