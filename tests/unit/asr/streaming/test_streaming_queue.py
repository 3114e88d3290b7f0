"""Many streams through one thread: batches, order, bounds, failures, and that nothing grows."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cosyd.asr.decode import DecodeResult
from cosyd.asr.hotwords import Hotword
from cosyd.asr.streaming.chunk import Chunk, LiveTranscript
from cosyd.asr.streaming.former import BatchFormer
from cosyd.asr.streaming.recognizer import CachedStateRecognizer
from cosyd.asr.streaming.stream_queue import StreamQueue
from cosyd.asr.streaming.stream_work import StreamWork
from cosyd.errors import InferenceError
from cosyd.spec import FRAME

Audio = NDArray[np.float32]
FolderOf = Callable[[str], Path]


# --- work -----------------------------------------------------------------------------------------------


@pytest.fixture
def recognizer(folder_of: FolderOf) -> Iterator[CachedStateRecognizer]:
    recognizer = CachedStateRecognizer.load(folder_of("zipformer2"), name="small", capacity=8)
    yield recognizer
    recognizer.close()


def chunks_of(source: str, audio: Audio, *, utt: int = 1, size: int = FRAME.block) -> list[Chunk]:
    pieces = [audio[start : start + size] for start in range(0, len(audio), size)]
    return [
        Chunk(
            id=i,
            source=source,
            utt=utt,
            kind="final" if i == len(pieces) - 1 else "partial",
            audio=piece,
            start_sample=i * size,
            end_sample=(i + 1) * size,
            anchor=0,
            blocks=i + 1,
            ends="utterance" if i == len(pieces) - 1 else "",
        )
        for i, piece in enumerate(pieces)
    ]


def alone(folder: Path, audio: Audio) -> str:
    recognizer = CachedStateRecognizer.load(folder, name="alone", capacity=1)
    slot = recognizer.open()
    recognizer.accept([slot], [audio])
    text = recognizer.finish(slot).text
    recognizer.close()
    return text


def texts(results: list[DecodeResult], kind: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for result in results:
        if result.decode.kind == kind and result.transcript is not None:
            found.setdefault(result.decode.source, []).append(result.transcript.text)
    return found


class Clock:
    """Simulated time; a step of the network costs nothing."""

    def __init__(self) -> None:
        self.now = 0.0


def live(work: StreamWork, streams: dict[str, list[Chunk]], clock: Clock) -> list[DecodeResult]:
    """Chunks arrive when their audio has been spoken."""
    results: list[DecodeResult] = []
    pending = {source: list(chunks) for source, chunks in streams.items()}
    while any(pending.values()) or len(work):
        for source, chunks in pending.items():
            if chunks and not work.ending(source):
                results += work.hear([chunks.pop(0)], clock.now, clock.now)
        while work.delay(clock.now) is not None:
            clock.now += work.delay(clock.now) or 0.0
            results += work.step(clock.now)
        clock.now += FRAME.block_ms / 1000
    return results


def test_streams_of_a_batch_say_what_each_says_alone(
    recognizer: CachedStateRecognizer, folder_of: FolderOf, voices: list[Audio]
) -> None:
    work = StreamWork(recognizer, BatchFormer(8))
    streams = {f"s{i}": chunks_of(f"s{i}", voice) for i, voice in enumerate(voices)}
    results = live(work, streams, Clock())
    finals = texts(results, "final")
    for i, voice in enumerate(voices):
        assert finals[f"s{i}"] == [alone(folder_of("zipformer2"), voice)]
    assert len(work) == len(recognizer.streams) == 0


def test_partials_grow_and_their_stable_part_never_changes(
    recognizer: CachedStateRecognizer, voices: list[Audio]
) -> None:
    results = live(StreamWork(recognizer, BatchFormer(8)), {"s": chunks_of("s", voices[2])}, Clock())
    transcripts = [r.transcript for r in results if isinstance(r.transcript, LiveTranscript)]
    assert len(transcripts) > 5
    stable = ""
    for transcript in transcripts:
        assert transcript.stable.startswith(stable)
        assert transcript.text.startswith(stable)
        stable = transcript.stable


def test_a_batch_waits_no_longer_than_the_deadline(
    recognizer: CachedStateRecognizer, voices: list[Audio], monkeypatch: Any
) -> None:
    """One stream has audio for a step, another has not and may not hold it up."""
    work = StreamWork(recognizer, BatchFormer(8, 0.005))
    work.hear(chunks_of("slow", voices[0])[:1], 0.0, 0.0)
    work.hear(chunks_of("quick", voices[1], size=16_000)[:1], 0.0, 10.0)
    assert work.delay(10.0) == pytest.approx(0.005)
    batches: list[list[int]] = []
    step = recognizer.streams.step
    monkeypatch.setattr(recognizer.streams, "step", lambda b, *n: batches.append(b) or step(b, *n))
    work.step(10.004)
    assert not batches
    work.step(10.0051)
    assert [len(batch) for batch in batches] == [1]


def test_a_segment_goes_on_without_a_break(recognizer: CachedStateRecognizer, voices: list[Audio]) -> None:
    import dataclasses

    chunks = chunks_of("s", voices[4])
    middle = len(chunks) // 2
    chunks[middle] = dataclasses.replace(chunks[middle], ends="segment", kind="final")
    work = StreamWork(recognizer, BatchFormer(8))
    whole = texts(
        live(StreamWork(recognizer, BatchFormer(8)), {"s": chunks_of("s", voices[4])}, Clock()), "final"
    )
    results = live(work, {"s": chunks}, Clock())
    first, second = texts(results, "final")["s"]
    assert f"{first} {second}".replace(" ", "") == whole["s"][0].replace(" ", "")
    words = [
        word for r in results if r.decode.kind == "final" and r.transcript for word in r.transcript.words
    ]
    assert [word.start for word in words] == sorted(word.start for word in words)


def test_a_step_that_fails_is_tried_again(
    recognizer: CachedStateRecognizer, folder_of: FolderOf, voices: list[Audio], monkeypatch: Any
) -> None:
    encoder = recognizer.streams._encoder
    step, failed = encoder.step, iter([True, False] * 1_000)

    def sometimes(*args: Any) -> Any:
        if next(failed):
            raise InferenceError("it fell over")
        return step(*args)

    monkeypatch.setattr(encoder, "step", sometimes)
    results = live(StreamWork(recognizer, BatchFormer(8)), {"s": chunks_of("s", voices[0])}, Clock())
    assert texts(results, "final")["s"] == [alone(folder_of("zipformer2"), voices[0])]
    assert not [result for result in results if result.error]


def test_a_network_that_always_fails_still_ends_its_utterances(
    recognizer: CachedStateRecognizer, voices: list[Audio], monkeypatch: Any
) -> None:
    def fails(*args: Any) -> Any:
        raise InferenceError("it fell over")

    monkeypatch.setattr(recognizer.streams._encoder, "step", fails)
    results = live(StreamWork(recognizer, BatchFormer(8)), {"s": chunks_of("s", voices[0])}, Clock())
    assert (results[-1].decode.kind, results[-1].transcript) == ("final", None)
    assert "fell over" in (results[-1].error or "")
    assert len(recognizer.streams) == 0


def test_a_stream_whose_scores_are_no_numbers_does_not_harm_the_others(
    recognizer: CachedStateRecognizer, folder_of: FolderOf, voices: list[Audio], monkeypatch: Any
) -> None:
    encoder = recognizer.streams._encoder
    step, calls = encoder.step, iter(range(1_000))
    first = recognizer.streams.open()  # the slot that "bad" will have
    recognizer.streams.close(first)

    def poisoned(slots: list[int], windows: list[Audio]) -> Audio:
        scores = step(slots, windows)
        if first in slots and next(calls) == 1:
            scores[slots.index(first)] = np.nan
        return scores

    monkeypatch.setattr(encoder, "step", poisoned)
    streams = {name: chunks_of(name, voices[4]) for name in ("bad", "good")}
    results = live(StreamWork(recognizer, BatchFormer(8)), streams, Clock())
    assert [r.decode.source for r in results if r.error] == ["bad"]
    finals = texts(results, "final")
    assert finals["good"] == [alone(folder_of("zipformer2"), voices[4])]
    assert finals["bad"] != finals["good"]
    assert finals["bad"][0]


def test_nothing_grows(recognizer: CachedStateRecognizer, voices: list[Audio]) -> None:
    """After utterances of two sources there are as many objects as after a few."""
    work = StreamWork(recognizer, BatchFormer(8))
    clock, counts = Clock(), []
    for utt in range(1, 61):
        streams = {s: chunks_of(s, voices[5], utt=utt, size=8_000) for s in "ab"}
        live(work, streams, clock)
        if utt in (20, 60):
            gc.collect()
            counts.append(len(gc.get_objects()))
    assert counts[1] - counts[0] < 200
    assert len(recognizer.streams) == len(work) == 0


# --- the thread -----------------------------------------------------------------------------------------


def collect(queue: StreamQueue, finals: int, timeout_s: float = 30.0) -> list[DecodeResult]:
    results: list[DecodeResult] = []
    deadline = time.monotonic() + timeout_s
    while sum(r.decode.kind == "final" for r in results) < finals and time.monotonic() < deadline:
        queue.wait(0.1)
        results += queue.results()
    return results


def test_many_sources_at_once(
    recognizer: CachedStateRecognizer, folder_of: FolderOf, voices: list[Audio]
) -> None:
    with StreamQueue(recognizer) as queue:

        def speak(source: int) -> None:
            for utt in (1, 2):
                for chunk in chunks_of(f"s{source}", voices[source], utt=utt, size=1_600):
                    assert queue.submit(chunk, 30.0)

        threads = [threading.Thread(target=speak, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        results = collect(queue, 8)
        for thread in threads:
            thread.join()
    finals = texts(results, "final")
    for i in range(4):
        assert finals[f"s{i}"] == [alone(folder_of("zipformer2"), voices[i])] * 2
    order = [(r.decode.source, r.decode.utt) for r in results]
    for source in finals:
        assert [utt for s, utt in order if s == source] == sorted(utt for s, utt in order if s == source)


def test_a_source_that_is_behind_has_no_room(recognizer: CachedStateRecognizer, voices: list[Audio]) -> None:
    queue = StreamQueue(recognizer, backlog_s=0.5)  # not started: nothing is taken
    chunks = chunks_of("s", voices[2], size=1_600)
    taken = 0
    while queue.has_room("s"):
        assert queue.submit(chunks[taken])
        taken += 1
    assert taken == 5
    assert not queue.submit(chunks[taken], 0.01)
    assert queue.has_room("other")
    assert queue.statistics().waiting_partials == 5
    queue.start()
    assert queue.submit(chunks[taken], 30.0)
    queue.close()


def test_stale_partials_are_replaced_by_newer_ones(
    recognizer: CachedStateRecognizer, voices: list[Audio]
) -> None:
    with StreamQueue(recognizer) as queue:
        for chunk in chunks_of("s", voices[4])[:-1]:
            assert queue.submit(chunk, 30.0)
        while queue.statistics().waiting_partials:
            time.sleep(0.01)
        time.sleep(0.1)
        results = queue.results()
    assert len(results) == 1
    assert queue.statistics().coalesced > 3


def test_a_source_that_is_forgotten_gives_its_stream_back(
    recognizer: CachedStateRecognizer, voices: list[Audio]
) -> None:
    with StreamQueue(recognizer) as queue:
        assert queue.submit(chunks_of("s", voices[4], size=16_000)[0])
        assert queue.wait(30.0)
        queue.forget_source("s")
        deadline = time.monotonic() + 30
        while len(recognizer.streams) and time.monotonic() < deadline:
            time.sleep(0.01)
    assert len(recognizer.streams) == 0


def test_closing_is_idempotent_and_leaves_no_thread(recognizer: CachedStateRecognizer) -> None:
    before = threading.active_count()
    queue = StreamQueue(recognizer)
    queue.start()
    with pytest.raises(RuntimeError):
        queue.start()
    queue.close()
    queue.close()
    assert threading.active_count() == before


def test_hotwords_that_cannot_be_spelt_are_told(recognizer: CachedStateRecognizer) -> None:
    """The small model's vocabulary of word pieces comes without a bpe.model."""
    (rejected,) = recognizer.unusable([Hotword("latte")])
    assert "bpe.model" in rejected.reason
    assert recognizer.unusable([]) == ()
