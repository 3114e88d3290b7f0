"""Folders with several precisions: which one runs, for how many streams, and that it says why."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import streaming_models as small
from numpy.typing import NDArray

from cosyd.asr.streaming.folder import CPU_ORDER, Precision
from cosyd.asr.streaming.model import StreamingModel
from cosyd.asr.streaming.precision import choose_precision, zero_feeds
from cosyd.asr.streaming.recognizer import CachedStateRecognizer
from cosyd.asr.streaming.streams import Streams
from cosyd.engine.by_batch import EngineByBatch
from cosyd.engine.memory import HostMemory
from cosyd.engine.ort import open_ort_cpu
from cosyd.engine.protocol import Engine, Execution
from cosyd.engine.tensors import Misuse
from cosyd.errors import ModelDamaged

Audio = NDArray[np.float32]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A zipformer2 transducer in all three precisions: fp16 and int8 with what these do to the weights."""
    root = tmp_path_factory.mktemp("precisions")
    path = small.save_transducer(root / "model", "zipformer2")
    for extra in ("fp16", "int8"):
        other = small.save(root / extra, f"zipformer2+{extra}")
        for file in other.glob(f"*.{extra}.onnx"):
            (path / file.name).write_bytes(file.read_bytes())
    return path


class Paced:
    """A clock, and engines that take as long as they are told: (of one stream, of each further one)."""

    def __init__(self, costs: dict[Precision, tuple[float, float]], device: str = "cpu") -> None:
        self.now, self.opened, self.closed = 0.0, [], []
        self._costs, self._device = costs, device

    def clock(self) -> float:
        return self.now

    def open(self, file: Path) -> Engine:
        precision = next((each for each in CPU_ORDER if f".{each}." in file.name), "fp32")
        self.opened.append(precision)
        return _PacedEngine(open_ort_cpu(file, name=str(file)), precision, self)  # type: ignore[return-value]

    def memory(self) -> HostMemory:
        memory = HostMemory()
        memory.device = self._device
        return memory

    def take(self, precision: Precision, streams: int) -> None:
        first, further = self._costs[precision]
        self.now += first + further * (streams - 1)


class _PacedEngine:
    def __init__(self, engine: Engine, precision: Precision, pace: Paced) -> None:
        self._engine, self.precision, self._pace = engine, precision, pace
        self.memory = pace.memory()
        self.ran: list[int] = []
        self.executions = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def run(self, feeds: dict[str, Any], outputs: Any = None) -> dict[str, Any]:
        if "x" in feeds:  # the encoder
            self.ran.append(len(feeds["x"]))
            self._pace.take(self.precision, len(feeds["x"]))
        return self._engine.run(feeds, outputs)

    def execution(self) -> Execution:
        self.executions += 1
        return self._engine.execution()

    def close(self) -> None:
        self._pace.closed.append(self.precision)

    def __enter__(self) -> _PacedEngine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def load(folder: Path, pace: Paced, streams: int, monkeypatch: pytest.MonkeyPatch) -> StreamingModel:
    chosen = lambda *args: choose_precision(*args, clock=pace.clock)  # noqa: E731
    monkeypatch.setattr("cosyd.asr.streaming.model.choose_precision", chosen)
    return StreamingModel.load(folder, pace.open, precision="auto", streams=streams)


def test_few_streams_have_one_precision_and_many_the_other(
    folder: Path, voices: list[Audio], monkeypatch: pytest.MonkeyPatch
) -> None:
    """8 bits cost 10 + 10 for each further stream, float32 25 + 5: they are equal at 4."""
    pace = Paced({"int8": (10.0, 10.0), "fp32": (25.0, 5.0), "fp16": (99.0, 99.0)})
    model = load(folder, pace, 8, monkeypatch)
    assert model.precision.startswith("int8 for up to 4 streams a step, fp32 for more")
    assert "fp16 99000.0 and 792000.0 ms" in model.precision
    assert isinstance(model.encoder, EngineByBatch)
    int8, fp32 = model.encoder.parts
    for engine in (int8, fp32):
        engine.ran.clear()  # type: ignore[attr-defined]
    for n in range(1, 9):
        model.encoder.run(zero_feeds(model.spec, model.encoder, n))
    assert (int8.ran, fp32.ran) == ([1, 2, 3, 4], [5, 6, 7, 8])  # type: ignore[attr-defined]
    streams = Streams(model, capacity=8)
    for slot in [streams.open() for _ in range(8)]:
        streams.push(slot, voices[0])
    streams.step([0, 1, 2, 3])
    assert (int8.executions, fp32.executions) == (1, 0)  # type: ignore[attr-defined]
    streams.step([0, 1, 2, 3, 4])
    assert (int8.executions, fp32.executions) == (1, 1)  # type: ignore[attr-defined]
    streams.shut()
    assert pace.closed == ["fp16"]
    model.close()
    assert {"int8", "fp32"} <= set(pace.closed[1:])


def test_one_that_is_always_faster_is_all_that_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pace = Paced({"int8": (10.0, 5.0), "fp32": (20.0, 6.0), "fp16": (20.0, 9.0)})
    with load(folder, pace, 4, monkeypatch) as model:
        assert model.precision.startswith("int8, the fastest here for 4 streams (a step of 1 and of 4: int8")
        assert sorted(pace.closed) == ["fp16", "fp32"]
        assert model.folder.encoder.name.endswith(".int8.onnx")


def test_a_little_faster_is_not_worth_more_than_the_usual_order(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pace = Paced({"int8": (10.0, 10.0), "fp32": (9.5, 9.5), "fp16": (9.5, 9.5)})
    with load(folder, pace, 8, monkeypatch) as model:
        assert model.precision.startswith("int8, the fastest")


def test_a_gpu_takes_float16_and_measures_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pace = Paced({"int8": (1.0, 1.0), "fp32": (1.0, 1.0), "fp16": (9.0, 9.0)}, device="cuda")
    with load(folder, pace, 8, monkeypatch) as model:
        assert model.precision == "fp16, the best of its files on a GPU"
        assert pace.now == 0.0
    assert pace.opened[0] == "fp16"


@pytest.mark.parametrize("fastest", [None, *product(CPU_ORDER, repeat=2)], ids=str)
def test_in_earnest_a_precision_is_measured_and_recognises_as_it_should(
    fastest: tuple[Precision, Precision] | None,
    folder: Path,
    voices: list[Audio],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whichever it is (of one stream, of several; None: as measured), the text is that of the file that was
    taken, one stream at a time, with its joiner."""
    if fastest:
        found = iter(fastest)
        monkeypatch.setattr("cosyd.asr.streaming.precision._fastest", lambda times: next(found))
    recognizer = CachedStateRecognizer.load(folder, name="auto", capacity=2, precision="auto")
    reason = recognizer.backend.reason
    assert "the fastest here" in reason or "a step, " in reason
    taken = recognizer._model.folder.precision
    with StreamingModel.load(folder, precision=taken) as model:
        assert model.precision == taken
    slot = recognizer.open()
    recognizer.accept([slot], [voices[0]])
    text = recognizer.finish(slot).text
    recognizer.close()
    fixed = CachedStateRecognizer.load(folder, name="fixed", precision=taken)
    slot = fixed.open()
    fixed.accept([slot], [voices[0]])
    assert fixed.finish(slot).text == text != ""
    fixed.close()


def test_a_precision_that_is_not_there_is_told(folder: Path, folder_of: Any) -> None:
    with StreamingModel.load(folder, precision="fp16") as model:
        assert (model.precision, model.folder.precision) == ("fp16", "fp16")
    with StreamingModel.load(folder_of("zipformer2"), precision="fp16") as model:
        assert model.precision == "fp32, as there is no fp16 file in the folder"
    with StreamingModel.load(folder_of("zipformer2"), precision="auto") as model:
        assert model.precision == "fp32"


def test_networks_that_differ_are_not_mixed(folder: Path, folder_of: Any) -> None:
    files = (next(folder.glob("encoder-*-1.onnx")), next(folder_of("conformer").glob("encoder*")))
    few, many = (open_ort_cpu(file) for file in files)
    with pytest.raises(Misuse, match="other inputs"):
        EngineByBatch(few, many, 2, "x")


def test_all_are_closed_when_one_is_damaged(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "model"
    broken.mkdir()
    for file in folder.iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    next(broken.glob("encoder*.int8.onnx")).write_bytes(b"no network")
    pace = Paced({"int8": (1.0, 1.0), "fp32": (1.0, 1.0), "fp16": (1.0, 1.0)})
    with pytest.raises(ModelDamaged, match="int8"):
        StreamingModel.load(broken, pace.open, precision="auto", streams=2)
    assert sorted(pace.closed) == ["fp16", "fp32"]
