"""Sources of audio: each writes what it hears into a ring and reports what becomes of the device.

``Capture`` runs one source; ``list_devices`` says what there is. Only ``portaudio`` imports sounddevice,
only ``pyaudio_source`` pyaudio, only ``file`` and ``write`` soundfile, each when it is first used.
"""

from cosyd.capture.device import DeviceInfo
from cosyd.capture.run import Capture, list_devices

__all__ = ["Capture", "DeviceInfo", "list_devices"]
