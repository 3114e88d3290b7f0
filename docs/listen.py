"""Makes listen.svg, the picture in the README: what ``cosyd listen`` shows, from a real run of the daemon.

``.venv/bin/python docs/listen.py``. The messages are real and drawn by the code of ``cosyd listen``; only the
terminal is a recorded one.
"""

from __future__ import annotations

import io
import re
import tempfile
import time
from pathlib import Path

from rich.console import Console

from cosyd.bench.daemon import Daemon
from cosyd.bench.reel import make_reel
from cosyd.bench.speech import eval_clips
from cosyd.cli.captions import Captions
from cosyd.client import AsrPartial, Client

PICTURE = Path(__file__).with_name("listen.svg")
CLIPS = 8
FINALS, PARTIALS = 4, 3  # taken at this partial, or later, after so many finals
WIDTH = 100


def main() -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    recording = Path(tempfile.gettempdir(), "kitchen.wav")
    reel = make_reel(recording, list(eval_clips("coffee-commands", CLIPS)), pause_s=2.0)
    source = {"name": "kitchen", "type": "file", "path": str(reel.path), "realtime": True}
    try:
        with Daemon({"sources": [source]}) as daemon, Client(daemon.events, daemon.control, ("",)) as client:
            captions = _watch(client, console)
        console.print(captions.draw())
    finally:
        recording.unlink()
    PICTURE.write_text(_self_contained(console.export_svg(title="cosyd listen")))


def _watch(client: Client, console: Console) -> Captions:
    captions, partials = Captions(), 0
    for message in client:
        for line in captions.accept(message, time.monotonic()):
            console.print(line)
        if isinstance(message, AsrPartial) and captions.utterances >= FINALS:
            partials += 1
            if partials >= PARTIALS and captions.views[message.source].speaking:
                break
    return captions


def _self_contained(svg: str) -> str:
    """Without fonts from elsewhere: any monospace font of the reader's does, and pages may not fetch."""
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    main()
