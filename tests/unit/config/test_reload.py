"""Reload: validate, then swap; one reload for each save (field case 34)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from cosyd.config.load import Loaded, load, named_files
from cosyd.config.paths import Locations
from cosyd.config.reload import SETTLE_MS, Changes, attempt, diff, is_live, merge_live, watch
from cosyd.config.schema import Config


def configured(text: str, folder: Path) -> Config:
    return loader(text, folder)().config


def loader(text: str, folder: Path) -> Callable[[], Loaded]:
    file = folder / "cosyd.yaml"
    file.write_text(text)
    return lambda: load(named_files([file]), environ={})


def test_equal_configurations_differ_in_nothing() -> None:
    changes = diff(Config(), Config())
    assert not changes
    assert changes == Changes()


def test_live_keys_are_applied_and_restart_keys_named(tmp_path: Path) -> None:
    new = configured(
        "vad: {threshold: 0.5}\nasr: {threads: 4, partial_ms: 0}\npaths: {models: /m}\n", tmp_path
    )
    changes = diff(Config(), new)
    assert changes.applied == ("vad.threshold", "asr.partial_ms")
    assert changes.needs_restart == ("asr.threads", "paths.models")
    merged = merge_live(Config(), new)
    assert (merged.vad.threshold, merged.asr.partial_ms) == (0.5, 0)
    assert (merged.asr.threads, merged.paths.models) == (1, None)
    assert diff(merged, new).needs_restart == ("asr.threads", "paths.models")  # still told the next time


def test_sources_come_go_and_change(tmp_path: Path) -> None:
    old = configured("sources: [{name: a}, {name: b}, {name: c}]", tmp_path)
    new = configured("sources: [{name: c, muted: true, block_ms: 20}, {name: d}, {name: a}]", tmp_path)
    changes = diff(old, new)
    assert (changes.added, changes.removed, changes.changed) == (("d",), ("b",), ("c",))
    assert changes.applied == ("sources.d", "sources.b", "sources.c.block_ms", "sources.c.muted")
    assert merge_live(old, new).sources == new.sources


def test_every_key_is_live_or_restart() -> None:
    from cosyd.config.faults import section_of

    for name, info in Config.model_fields.items():
        section = section_of(info.annotation)
        assert section is not None
        for key, field in section.model_fields.items():
            assert isinstance(field.json_schema_extra, dict), f"{name}.{key}"
            assert field.json_schema_extra["reload"] in ("live", "restart")
    assert is_live(("vad", "threshold"))
    assert not is_live(("asr", "model"))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("vad: {threshold: ", "not valid YAML"),  # half-written
        ("vad:\n  thre", "must be a section with keys"),  # half-written in a way that is YAML
        ("vad: {treshold: 0.5}", "did you mean 'threshold'?"),
        ("vad: {threshold: 5}", "must be a number, above 0, below 1, not 5"),
    ],
)
def test_a_fault_changes_nothing(tmp_path: Path, text: str, fault: str) -> None:
    running = configured("vad: {threshold: 0.4}", tmp_path)
    outcome = attempt(running, loader(text, tmp_path))
    assert outcome.config is running
    assert not outcome.changes
    assert fault in outcome.rejected[0]


def test_a_good_file_is_swapped(tmp_path: Path) -> None:
    outcome = attempt(Config(), loader("vad: {threshold: 0.4}\ngpu: {backend: cpu}", tmp_path))
    assert outcome.rejected == ()
    assert outcome.config.vad.threshold == 0.4
    assert outcome.config.gpu.backend == "auto"
    assert (outcome.changes.applied, outcome.changes.needs_restart) == (("vad.threshold",), ("gpu.backend",))


def test_new_live_keys_must_go_with_old_restart_keys(tmp_path: Path) -> None:
    running = configured("frontend: {max_streams: 1}", tmp_path)
    outcome = attempt(running, loader("sources: [{name: a}, {name: b}]", tmp_path))
    assert outcome.config is running
    assert outcome.rejected == ("sources: 2 sources, but frontend.max_streams is 1 (until a restart)",)


# --- watching ------------------------------------------------------------------------------------------


def observe(locations: Locations, *steps: Callable[[], object]) -> list[list[str]]:
    """What ``watch`` yields after each step, given time to settle; the names of the files."""
    seen: list[list[str]] = []

    async def collect(stop: asyncio.Event) -> None:
        async for changed in watch(locations, stop):
            seen.append([path.name for path in changed])

    async def scene() -> list[list[str]]:
        stop = asyncio.Event()
        task = asyncio.create_task(collect(stop))
        await asyncio.sleep(0.5)  # until the folders are watched
        for step in steps:
            before = len(seen)
            step()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(_grown(seen, before), 4 * SETTLE_MS / 1000)
        await asyncio.sleep(1.5 * SETTLE_MS / 1000)  # a second reload of the last save would come now
        stop.set()
        await asyncio.wait_for(task, 10)
        return seen

    return asyncio.run(scene())


async def _grown(seen: list[list[str]], before: int) -> None:
    while len(seen) == before:
        await asyncio.sleep(0.02)


@pytest.fixture
def locations(tmp_path: Path) -> Locations:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "cosyd.yaml").write_text("vad: {threshold: 0.5}\n")
    return Locations((tmp_path / "cosyd.yaml", tmp_path / "conf.d"))


def test_one_reload_for_each_way_to_save(tmp_path: Path, locations: Locations) -> None:
    file = tmp_path / "cosyd.yaml"

    def in_place() -> None:
        file.write_text("vad: {threshold: 0.4}\n")

    def like_vim() -> None:
        file.rename(tmp_path / "cosyd.yaml~")
        file.write_text("vad: {threshold: 0.3}\n")
        (tmp_path / "cosyd.yaml~").unlink()

    def by_rename() -> None:
        (tmp_path / ".cosyd.yaml.new").write_text("vad: {threshold: 0.2}\n")
        os.replace(tmp_path / ".cosyd.yaml.new", file)  # noqa: PTH105

    assert observe(locations, in_place, like_vim, by_rename) == [["cosyd.yaml"]] * 3


def test_half_written_then_completed_is_one_reload(tmp_path: Path, locations: Locations) -> None:
    def slowly() -> None:
        with (tmp_path / "cosyd.yaml").open("w") as file:
            for part in ("vad: {", "threshold: ", "0.4", "}\n"):
                file.write(part)
                file.flush()

    assert observe(locations, slowly) == [["cosyd.yaml"]]


def test_what_does_not_matter_is_no_reload(tmp_path: Path, locations: Locations) -> None:
    def touch_and_save_as_it_was() -> None:
        (tmp_path / "cosyd.yaml").touch()
        (tmp_path / "cosyd.yaml").write_text("vad: {threshold: 0.5}\n")
        (tmp_path / "notes.txt").write_text("x")

    assert observe(locations, touch_and_save_as_it_was) == []


def test_files_of_the_folder_come_and_go(tmp_path: Path, locations: Locations) -> None:
    added = tmp_path / "conf.d" / "10.yaml"
    assert observe(locations, lambda: added.write_text("log: {}\n"), added.unlink) == [
        ["10.yaml"],
        ["10.yaml"],
    ]
