"""Loading: layers, origins, and every fault at once with its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosyd.config.load import Loaded, load, named_files
from cosyd.config.paths import Locations
from cosyd.config.schema import Config, SourceConfig
from cosyd.config.tree import DEFAULT_SOURCE
from cosyd.errors import ConfigError


def read(tmp_path: Path, text: str, *overrides: str, **environ: str) -> Loaded:
    file = tmp_path / "cosyd.yaml"
    file.write_text(text)
    return load(named_files([file]), overrides, environ)


def faults(tmp_path: Path, text: str, *overrides: str, **environ: str) -> list[str]:
    """The problems, the folder left out of file names."""
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text, *overrides, **environ)
    assert caught.value.exit_code == 2
    return [problem.replace(f"{tmp_path}/", "") for problem in caught.value.problems]


# --- layers --------------------------------------------------------------------------------------------


def test_nothing_at_all_is_the_defaults(tmp_path: Path) -> None:
    loaded = load(Locations((tmp_path / "cosyd.yaml", tmp_path / "conf.d")), environ={})
    assert loaded.config == Config()
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.files == ()


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# nothing\n", "---\n", "vad:\n", "sources:\nvad: {}\n", "\ufeff# BOM"]
)
def test_empty_files_and_sections_mean_the_defaults(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text).config == Config()


def test_later_layers_win_and_origins_say_which(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "cosyd.yaml").write_text("vad:\n  threshold: 0.5\n  release: 0.3\nasr:\n  hotwords: [a, b]\n")
    (tmp_path / "conf.d" / "20.yaml").write_text("vad: {min_speech_ms: 20}\nasr: {hotwords: [c]}\n")
    (tmp_path / "conf.d" / "10.yaml").write_text("vad: {min_speech_ms: 10, min_silence_ms: 10}\n")
    (tmp_path / "conf.d" / "30.txt").write_text("not: read")
    loaded = load(
        Locations((tmp_path / "cosyd.yaml", tmp_path / "conf.d")),
        ["endpoint.silence_ms=700"],
        {"COSYD_VAD__RELEASE": "0.2", "COSYD_ENDPOINT__SILENCE_MS": "600", "HOME": "/"},
    )
    vad = loaded.config.vad
    assert (vad.threshold, vad.release, vad.min_speech_ms, vad.min_silence_ms) == (0.5, 0.2, 20, 10)
    assert loaded.config.asr.hotwords == ("c",)  # lists replace
    assert loaded.config.endpoint.silence_ms == 700
    assert loaded.origins["vad.threshold"] == f"{tmp_path}/cosyd.yaml:2"
    assert loaded.origins["vad.release"] == "env COSYD_VAD__RELEASE"
    assert loaded.origins["vad.min_speech_ms"] == f"{tmp_path}/conf.d/20.yaml:1"
    assert loaded.origins["endpoint.silence_ms"] == "--set endpoint.silence_ms"
    assert loaded.origins["sources.mic.device"] == "default"
    assert [file.name for file in loaded.files] == ["cosyd.yaml", "10.yaml", "20.yaml"]


def test_sources_merge_by_name(tmp_path: Path) -> None:
    first, second = tmp_path / "1.yaml", tmp_path / "2.yaml"
    first.write_text("sources:\n- name: a\n  block_ms: 20\n  channels: 2\n- name: b\n")
    second.write_text("sources:\n- name: c\n- name: a\n  block_ms: 30\n")
    loaded = load(named_files([first, second]), environ={})
    assert [source.name for source in loaded.config.sources] == ["a", "b", "c"]
    assert (loaded.config.sources[0].block_ms, loaded.config.sources[0].channels) == (30, 2)
    assert loaded.origins["sources.a.block_ms"] == f"{second}:4"
    assert loaded.origins["sources.a.channels"] == f"{first}:4"


def test_a_source_without_a_name_has_the_default_one(tmp_path: Path) -> None:
    assert SourceConfig().name == DEFAULT_SOURCE
    loaded = read(tmp_path, "sources:\n- channels: 4\n", "sources.mic.block_ms=20")
    assert (loaded.config.sources[0].channels, loaded.config.sources[0].block_ms) == (4, 20)


def test_single_keys_of_sources_by_name_and_by_number(tmp_path: Path) -> None:
    text = "sources:\n- name: front-door\n- name: b\n"
    overrides = ("sources.b.channels=1", "sources.0.device=USB Audio: - (hw:1,0)")
    loaded = read(tmp_path, text, *overrides, COSYD_SOURCES__FRONT_DOOR__BLOCK_MS="40")
    front, other = loaded.config.sources
    assert (front.block_ms, front.device, other.channels) == (40, "USB Audio: - (hw:1,0)", 1)
    assert loaded.origins["sources.front-door.block_ms"] == "env COSYD_SOURCES__FRONT_DOOR__BLOCK_MS"


def test_the_default_source_can_be_set_without_a_file() -> None:
    overrides = ["sources.mic.type=file", "sources.mic.path=/a.wav", "sources.mic.channel_map=[1, 2]"]
    source = load(Locations(()), overrides, {}).config.sources[0]
    assert (source.type, source.path, source.channel_map) == ("file", "/a.wav", (1, 2))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", False),
        ("1", True),
        ("false", False),
        ("true", True),
        ("no", False),
        ("off", False),
        ("yes", True),
    ],
)
def test_truth_in_the_environment_is_what_it_says(text: str, value: bool) -> None:
    assert load(Locations(()), [], {"COSYD_METRICS__ENABLED": text}).config.metrics.enabled is value


def test_text_that_looks_like_something_else_can_be_quoted() -> None:
    assert load(Locations(()), ['sources.mic.device="2"'], {}).config.sources[0].device == "2"
    assert load(Locations(()), ["sources.mic.device=2"], {}).config.sources[0].device == 2
    assert load(Locations(()), ["sources.mic.device=null"], {}).config.sources[0].device is None


def test_models_folder_from_its_own_variable() -> None:
    loaded = load(Locations(()), [], {"COSYD_MODELS_DIR": "/m", "COSYD_DEBUG": "1"})
    assert loaded.config.paths.models == "/m"
    assert loaded.origins["paths.models"] == "env COSYD_MODELS_DIR"


def test_yaml_words_that_are_text_here(tmp_path: Path) -> None:
    loaded = read(tmp_path, "frontend: {denoise: off}\nsources: [{device: 12:30}]\n")
    assert loaded.config.frontend.denoise == "off"
    assert loaded.config.sources[0].device == "12:30"


# --- faults --------------------------------------------------------------------------------------------


def test_every_fault_at_once_with_its_line(tmp_path: Path) -> None:
    text = """\
sources:
  - name: mic
    type: portaudoi
    device: [1]
    rate_hz: 4000
    channel_map: [0, x]
  - name: fifo
    type: pipe
vad:
  treshold: 0.5
  release: 0.7
endpoint:
  silence_ms: soon
frontend:
  denoise: of
publish:
  endpoint: tcp://0.0.0.0:5555
gpu: 5
logg:
  level: info
asr:
  hotwords: [a, 5]
"""
    found = faults(tmp_path, text, "vad.min_speech_ms=-3", "log.level=", COSYD_ASR__TREADS="2")
    assert found == [
        "cosyd.yaml:3: sources.mic.type: must be one of portaudio, pyaudio, file, pipe, not 'portaudoi', "
        "did you mean 'portaudio'?",
        "cosyd.yaml:4: sources.mic.device: must be text or a whole number or null, not a list",
        "cosyd.yaml:5: sources.mic.rate_hz: must be a whole number, 8000 to 192000, or null, not 4000",
        "cosyd.yaml:6: sources.mic.channel_map.1: must be a whole number, not 'x'",
        "cosyd.yaml:8: sources.fifo.path: type pipe needs a path: a FIFO, or - for standard input",
        "cosyd.yaml:8: sources.fifo.rate_hz: type pipe needs rate_hz: raw samples do not tell it",
        "cosyd.yaml:10: vad.treshold: unknown key, did you mean 'threshold'?",
        "cosyd.yaml:11: vad.release: must be below vad.threshold, which is 0.6",
        "cosyd.yaml:13: endpoint.silence_ms: must be a whole number, 100 to 10000, not 'soon'",
        "cosyd.yaml:15: frontend.denoise: must be one of off, dtln, not 'of', did you mean 'off'?",
        "cosyd.yaml:17: publish.endpoint: can be reached from other machines: set publish.curve: true, "
        "or bind to 127.0.0.1",
        "cosyd.yaml:18: gpu: must be a section with keys, not 5",
        "cosyd.yaml:19: logg: unknown key, did you mean 'log'?",
        "cosyd.yaml:22: asr.hotwords.1: must be text, not 5",
        "env COSYD_ASR__TREADS: asr.treads: unknown key, did you mean 'threads'?",
        "--set vad.min_speech_ms: vad.min_speech_ms: must be a whole number, 0 to 5000, not -3",
        "--set log.level: log.level: must be one of debug, info, warning, error, not null",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("vad:\n\tthreshold: 0.5\n", "cosyd.yaml:2: a tab where YAML wants spaces"),
        ("a: b: c\n", "cosyd.yaml:1: not valid YAML: a second ':' in one line, or wrong indentation"),
        ("- vad\n", "cosyd.yaml:1: the file must be a mapping of sections, such as 'vad:'"),
        ("hello", "cosyd.yaml:1: the file must be a mapping of sections, such as 'vad:'"),
        ("vad: {}\n---\nvad: {}\n", "cosyd.yaml:2: only one document is allowed, here begins a second ('---')"),  # noqa: E501
        (
            "vad:\n  threshold: 0.5\n\n  threshold: 0.6\n",
            "cosyd.yaml:4: vad.threshold: appears twice, first in line 2",
        ),
        ("vad: {}\nlog: {}\nvad: {}\n", "cosyd.yaml:3: vad: appears twice, first in line 1"),
        ("vad: {threshold: !!python/none x}\n", "cosyd.yaml:1: vad.threshold: the tag tag:yaml.org,2002:python/none is not allowed"),  # noqa: E501
        ("? [a]\n: b\n", "cosyd.yaml:1: a key has to be text"),
        ("vad: &a {release: *a}\n", "cosyd.yaml:1: vad.release: contains itself"),
        ("vad: {threshold: \x01}", "cosyd.yaml:1: character U+0001 is not allowed in YAML"),
        ('vad: {"a\\nb": 1}\n', "cosyd.yaml:1: vad.a�b: unknown key"),
        ("vad:\n  threshold: .nan\n", "cosyd.yaml:2: vad.threshold: must be a number, above 0, below 1, not nan"),  # noqa: E501
        ("vad: {threshold: true}", "cosyd.yaml:1: vad.threshold: must be a number, above 0, below 1, not true"),  # noqa: E501
        ("sources: []\n", "cosyd.yaml:1: sources: must be a list, at least 1 of them, not an empty list"),
        (
            "sources: [{name: Küche}]",
            "cosyd.yaml:1: sources.Küche.name: must be text of a-z, 0-9, - and _, at most 32, beginning with a "  # noqa: E501
            "letter or digit, not 'Küche'",
        ),
        (
            "sources: [{name: a}, {name: b}, {name: a}]",
            "cosyd.yaml:1: sources.a.name: a second source named 'a'",
        ),
        ("sources: [{type: file}]", "cosyd.yaml:1: sources.mic.path: type file needs a path: the recording"),
        (
            "sources: [{channels: 2, channel_map: [1, 2]}]",
            "cosyd.yaml:1: sources.mic.channel_map: no channel 2: they are 0 to 1",
        ),
        ("endpoint: {longest_ms: 2000, short_silence_ms: 3000}", "cosyd.yaml:1: endpoint.longest_ms: must be more than endpoint.short_silence_ms, which is 3000"),  # noqa: E501
        ("control: {endpoint: 'tcp://*:5'}", "cosyd.yaml:1: control.endpoint: can be reached from other machines: set publish.curve: true, or bind to 127.0.0.1"),  # noqa: E501
        ("control: {endpoint: 'udp://x'}", "cosyd.yaml:1: control.endpoint: must begin with ipc:// or tcp://, not 'udp://x'"),  # noqa: E501
        ("gpu: {require_gpu: true, backend: cpu}", "cosyd.yaml:1: gpu.require_gpu: a GPU is required, but gpu.backend is cpu"),  # noqa: E501
    ],
)  # fmt: skip
def test_single_faults(tmp_path: Path, text: str, fault: str) -> None:
    assert faults(tmp_path, text) == [fault]


def test_faults_of_whole_files(tmp_path: Path) -> None:
    (tmp_path / "latin1.yaml").write_bytes(b"vad: {}\n# caf\xe9\n")
    (tmp_path / "huge.yaml").write_bytes(b"#" * (1 << 21))
    names = ("missing.yaml", "latin1.yaml", "huge.yaml")
    with pytest.raises(ConfigError) as caught:
        load(named_files([tmp_path / name for name in names]), environ={})
    assert [problem.replace(f"{tmp_path}/", "") for problem in caught.value.problems] == [
        "missing.yaml: cannot be read: No such file or directory",
        "latin1.yaml:2: is not UTF-8",
        "huge.yaml: larger than 1 MiB, this is no configuration",
    ]


def test_aliases_cannot_explode(tmp_path: Path) -> None:
    lines = ["a0: &a0 [1]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert any("more than 20000 values" in fault for fault in faults(tmp_path, "\n".join(lines)))


def test_deep_nesting_is_a_fault_not_a_crash(tmp_path: Path) -> None:
    assert "nested" in faults(tmp_path, "vad: " + "[" * 1000)[0]
    assert any("nested too deeply" in fault for fault in faults(tmp_path, "vad: " + "[" * 60 + "]" * 60))


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ("vad", "--set vad: must be KEY=VALUE, such as vad.threshold=0.5"),
        ("=3", "--set : must be KEY=VALUE, such as vad.threshold=0.5"),
        ("vad..x=3", "--set vad..x: vad..x: not a key: write SECTION.KEY"),
        ("vad.threshold.x=3", "--set vad.threshold.x: vad.threshold.x: not a section, it has no keys"),
        ("vad.threshold=[", "--set vad.threshold: vad.threshold: not valid YAML"),
        ("sources.door.device=3", "--set sources.door.device: sources.door.device: no entry 'door'; there are mic"),  # noqa: E501
        ("sources.7.device=3", "--set sources.7.device: sources.7.device: no entry '7'; there are mic"),
        ("threshold=3", "--set threshold: threshold: unknown key"),
    ],
)  # fmt: skip
def test_faults_of_overrides(tmp_path: Path, override: str, fault: str) -> None:
    found = faults(tmp_path, "vad: {threshold: 0.5}", override)
    assert len(found) == 1
    assert found[0].startswith(fault)


def test_too_many_sources_for_the_front_end(tmp_path: Path) -> None:
    text = "frontend: {max_streams: 1}\nsources: [{name: a}, {name: b}]\n"
    assert faults(tmp_path, text) == ["cosyd.yaml:2: sources: 2 sources, but frontend.max_streams is 1"]


def test_what_is_odd_but_works_is_a_warning(tmp_path: Path) -> None:
    loaded = read(tmp_path, "metrics: {enabled: true, host: 0.0.0.0}\nsources: [{path: x.wav}]\n")
    assert [warning.replace(f"{tmp_path}/", "") for warning in loaded.warnings] == [
        "cosyd.yaml:1: metrics.host: metrics can be read by anyone who reaches this address",
        "cosyd.yaml:2: sources.mic.path: means nothing to a source of type portaudio",
    ]
    assert read(tmp_path, "metrics: {enabled: true, host: '::1'}\n").warnings == ()


@pytest.mark.parametrize(
    "address",
    ["tcp://127.0.0.1:5555", "tcp://localhost:*", "tcp://[::1]:5555", "ipc:///run/x.sock", "ipc://@x"],
)
def test_addresses_that_are_fine_without_keys(tmp_path: Path, address: str) -> None:
    assert read(tmp_path, f"publish: {{endpoint: '{address}'}}").config.publish.endpoint == address


def test_a_public_address_is_fine_with_keys(tmp_path: Path) -> None:
    assert read(tmp_path, "publish: {endpoint: 'tcp://*:5555', curve: true}").config.publish.curve


@pytest.mark.parametrize("name", ["COSYD_DEBUG", "COSYD_KERNEL_CACHE", "COSYD_BENCH_MODEL", "COSYD_FATBINS"])
def test_what_tools_read_from_the_environment_is_no_configuration(tmp_path: Path, name: str) -> None:
    """They start daemons with it."""
    assert read(tmp_path, "", **{name: "/somewhere"}).config == read(tmp_path, "").config
    with pytest.raises(ConfigError, match="COSYD_KERNEL_CASH"):
        read(tmp_path, "", COSYD_KERNEL_CASH="/somewhere")
