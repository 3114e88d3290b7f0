"""``cosyd array odas``: directions as ODAS tells them, so that its viewers show what cosyd hears.

ODAS sends, to a viewer that listens on a TCP port (9000 by convention), one JSON object a frame with as many
sources as it can track; those that are not there have id 0.
"""

from __future__ import annotations

import json
import math
import socket
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cosyd.cli.common import note
from cosyd.cli.endpoints import find_daemon, open_client
from cosyd.client import Doa
from cosyd.errors import CosydError, UsageError
from cosyd.spec import FRAME

SOURCES = 4  # that an ODAS viewer shows
FADE_S = 0.5  # a voice that was not told of for so long does not speak any more
CONNECT_S = 5.0


class Frames:
    """Doa messages to frames. One source's, or all mixed where several are subscribed."""

    def __init__(self, most: int = SOURCES) -> None:
        self._most = most
        self._newest: dict[int, Doa] = {}

    def accept(self, message: Doa) -> dict[str, object]:
        """The frame at the time of this message."""
        self._newest[message.track] = message
        now_ns = message.t_mono_ns
        self._newest = {t: m for t, m in self._newest.items() if now_ns - m.t_mono_ns < FADE_S * 1e9}
        loudest = sorted(self._newest.values(), key=lambda m: -(m.conf or 0.0))[: self._most]
        sources = [_source(m) for m in sorted(loudest, key=lambda m: m.track)]
        empty = {"id": 0, "tag": "", "x": 0.0, "y": 0.0, "z": 0.0, "activity": 0.0}
        sources += [empty] * (self._most - len(sources))
        return {"timeStamp": now_ns // (FRAME.hop_ms * 1_000_000), "src": sources}


def _source(message: Doa) -> dict[str, object]:
    azimuth, elevation = math.radians(message.azimuth_deg), math.radians(message.elevation_deg or 0.0)
    return {
        "id": message.track,
        "tag": "dynamic",
        "x": round(math.cos(elevation) * math.cos(azimuth), 3),
        "y": round(math.cos(elevation) * math.sin(azimuth), 3),
        "z": round(math.sin(elevation), 3),
        "activity": round(message.conf or 0.0, 3),
    }


def run(args: Namespace) -> int:
    frames = Frames()
    topic = f"doa.{args.source}" if args.source else "doa."
    with _sink(args.to) as send, open_client(find_daemon(args), (topic,)) as client:
        for message in client:
            if isinstance(message, Doa):
                send(json.dumps(frames.accept(message), indent=4))
    return 0


@contextmanager
def _sink(address: str | None) -> Iterator[Callable[[str], None]]:
    """To a viewer over TCP, or to standard output."""
    if address is None:
        yield lambda text: print(text, flush=True)
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise UsageError(f"--to {address}: must be HOST:PORT, such as 127.0.0.1:9000")
    try:
        with socket.create_connection((host, int(port)), CONNECT_S) as connection:
            note(f"sending to {address}")
            yield lambda text: connection.sendall(text.encode())
    except OSError as error:
        raise CosydError(f"the viewer at {address} cannot be reached: {error}; is it running?") from error
