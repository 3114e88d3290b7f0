"""``cosyd bench load``: many clients at once, and many live streams, on what this machine recognises with.

The model that sherpa-onnx runs beside ours is the one of ``cosyd bench streaming``: random weights and the
size and arithmetic of a zipformer2. Moonshine's own library runs where ``MOONSHINE_VOICE_PYTHON`` names an
interpreter that has it.
"""

from __future__ import annotations

import gc
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from cosyd.asr.moonshine_engines import open_networks
from cosyd.asr.moonshine_networks import Networks
from cosyd.asr.recognition import Recognition, open_recogniser
from cosyd.bench import load_peers
from cosyd.bench.load_live import LiveLoad, Recording, Times
from cosyd.bench.load_requests import Answers, Requests
from cosyd.bench.report import Report, percentiles
from cosyd.bench.speech import Audio, eval_clips
from cosyd.bench.streaming_model import save_ctc
from cosyd.config.load import load
from cosyd.config.schema import AsrConfig, GpuConfig
from cosyd.engine.streams import StreamEngines
from cosyd.errors import CosydError
from cosyd.frontend.silero import SileroVad
from cosyd.models.store import ModelStore
from cosyd.spec import FRAME

SECONDS = 6.0  # of a clip
CLIPS = 8
REQUESTS = {1: 24, 8: 40, 32: 64, 64: 96}  # by clients: all are busy most of the time
QUICK_REQUESTS = {1: 4, 8: 16}
LIVE_SEGMENT, LIVE_STREAMING = (1, 2, 4, 8), (1, 8, 32, 64)
LIVE_CLIPS, QUICK_LIVE_CLIPS = 4, 2  # of each stream, one after the other
LEAD_S, PAUSE_S = 0.5, 1.5
OWN = Path(__file__).resolve().parents[3] / "shared" / "models" / "streaming-ctc-tiny"
MOONSHINE = "moonshine-tiny-en"
RANDOM = "zipformer2 CTC, random weights"
METHOD = (
    "Real speech (LibriSpeech test-other, 6 s of each clip) through the daemon's own decode queue, opened as "
    "the daemon opens it, one thread for inference. *Requests*: so many clients, each of which sends a clip, "
    "waits for its text and sends the next; *wait* is from sending to text. sherpa-onnx has all clients in "
    "one batch; Moonshine's own library takes one request at a time, with as many threads as it likes. "
    "*Live*: streams at their own pace, begun within one second, each with a listener of its own, speech "
    "probabilities computed before; *first partial* is from the first sound of an utterance, *lag* from the "
    "last sound that a partial heard, *final* from the end of the endpoint's silence. *Late*: how long audio "
    "waited at worst because the recogniser was behind. *Processor* is of the whole process, in cores."
)


def run(quick: bool) -> dict[str, Any]:
    """Measure and report. Raises CosydError without recordings or models."""
    report = Report("load", "Load", METHOD, quick)
    with tempfile.TemporaryDirectory(prefix="cosyd-bench-") as folder:
        _Load(report, save_ctc(Path(folder) / "ctc"), quick).run()
    return report.as_dict()


class _Load:
    def __init__(self, report: Report, random: Path, quick: bool) -> None:
        self._report = report
        self._random = random
        self._paths = load().paths
        self._store = ModelStore(self._paths.models)
        self._clips = _clips()
        self._requests = QUICK_REQUESTS if quick else REQUESTS
        self._live_levels = 2 if quick else 4
        per_stream = QUICK_LIVE_CLIPS if quick else LIVE_CLIPS
        vad = SileroVad(self._store.require("silero-vad-6") / "silero_vad_16k_op15.onnx", 1)
        self._recordings = [_recording(self._clips, i, per_stream, vad) for i in range(len(self._clips))]
        self._rows: list[tuple[str, ...]] = []
        self._live_rows: list[tuple[str, ...]] = []
        self._backends: list[tuple[str, str, str]] = []

    def run(self) -> None:
        self._ours("Moonshine", MOONSHINE, LIVE_SEGMENT)
        self._moonshine_itself()
        if OWN.is_dir():
            self._ours(OWN.name, str(OWN), LIVE_STREAMING)
        self._ours(RANDOM, str(self._random), ())
        self._sherpa()
        head = ("recogniser", "clients", "wait P50", "wait P99", "requests/s", "processor s/request")
        self._report.table("Requests of 6 s", head, self._rows)
        times = ("first partial P50", "P99", "lag P50", "P99", "final P50", "P99", "late")
        live_head = ("recogniser", "streams", *times, "processor", "lost")
        self._report.table("Live streams", live_head, self._live_rows)
        self._report.table("What ran where", ("recogniser", "backend", "why"), self._backends)

    def _open(self, model: str, streams: int) -> AbstractContextManager[Recognition]:
        config, gpu, cache = AsrConfig(model=model), GpuConfig(), self._paths.cache
        engines = StreamEngines(gpu, cache, streams, config.threads)

        def networks(folder: Path) -> Networks:
            return open_networks(folder, folder.name, gpu, cache, threads=config.threads)

        return open_recogniser(config, self._store, streams, engines, networks)

    def _ours(self, name: str, model: str, live: Sequence[int]) -> None:
        with self._open(model, max(self._requests)) as recognition:
            self._backends.append((name, recognition.runs_on.name, recognition.runs_on.reason))
            for clients, total in self._requests.items():
                _say(f"{name}, {clients} clients")
                self._tell(name, clients, Requests(recognition.queue, self._clips, clients, total).run())
            for streams in live[: self._live_levels]:
                _say(f"{name}, {streams} live streams")
                gc.collect()
                self._tell_live(name, streams, LiveLoad(recognition, self._recordings, streams).run())

    def _moonshine_itself(self) -> None:
        name = "moonshine-voice"
        for clients, total in self._requests.items():
            _say(f"{name}, {clients} clients")
            answers = load_peers.moonshine(self._clips, clients, total)
            if isinstance(answers, str):
                self._backends.append((name, "not run", answers))
                return
            self._tell(name, clients, answers)
        self._backends.append((name, "cpu", "its own choice of threads"))

    def _sherpa(self) -> None:
        name = "sherpa-onnx"
        try:
            peer = load_peers.Sherpa(self._random)
        except ImportError as error:
            self._backends.append((name, "not run", str(error)))
            return
        for clients, total in self._requests.items():
            _say(f"{name}, {clients} clients")
            self._tell(f"{name}, {RANDOM}", clients, peer.run(self._clips, clients, total))
        self._backends.append((name, "cpu", f"the folder of {RANDOM}; {OWN.name} is a format of our own"))

    def _tell(self, name: str, clients: int, answers: Answers) -> None:
        wait = percentiles(answers.waits_s, (50, 99))
        cells = (_ms(wait[50]), _ms(wait[99]), f"{answers.per_second:.1f}")
        self._rows.append((name, str(clients), *cells, f"{answers.cpu_s / len(answers.waits_s):.3f}"))
        self._report.add(f"{name}: requests per second, {clients} clients", answers.per_second, "1/s")

    def _tell_live(self, name: str, streams: int, times: Times) -> None:
        columns = (times.first, times.lag, times.final)
        cells = [_ms(value) for column in columns for value in percentiles(column, (50, 99)).values()]
        share = f"{times.cpu_share:.2f}"
        self._live_rows.append((name, str(streams), *cells, _ms(times.late), share, str(times.lost)))
        final = 1e3 * percentiles(times.final, (50,))[50]
        self._report.add(f"{name}: final after the endpoint, {streams} live streams, P50", final, "ms")


def _clips() -> list[Audio]:
    samples = int(SECONDS * FRAME.rate_hz)
    long_ones = [
        clip.audio[:samples] for clip in eval_clips("librispeech-other") if clip.audio.size >= samples
    ]
    if not long_ones:
        raise CosydError(f"no recording of {SECONDS:.0f} s in librispeech-other")
    return long_ones[:CLIPS]


def _recording(clips: Sequence[Audio], first: int, count: int, vad: SileroVad) -> Recording:
    lead, pause = (np.zeros(int(s * FRAME.rate_hz), np.float32) for s in (LEAD_S, PAUSE_S))
    chosen = [clips[(first + i) % len(clips)] for i in range(count)]
    audio = np.concatenate([lead, *(part for clip in chosen for part in (clip, pause))])
    audio = audio[: audio.size // FRAME.block * FRAME.block]
    slot = np.zeros(1, np.intp)
    vad.reset(slot)
    probs = [float(vad.process(slot, block[None])[0]) for block in audio.reshape(-1, FRAME.block)]
    return Recording(audio, np.array(probs, np.float32))


def _ms(seconds: float) -> str:
    return "–" if seconds != seconds else f"{seconds * 1e3:,.0f} ms"


def _say(what: str) -> None:
    sys.stderr.write(f"load: {what}\n")
