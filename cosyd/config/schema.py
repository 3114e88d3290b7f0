"""The configuration: one frozen model a section. Each key has its unit in its name, a default, bounds, a
sentence of description, and is *live* (a reload applies it) or *restart* (a reload only names it).

``etc/cosyd.yaml`` is generated from this file (`cosyd config show --defaults`); a test keeps them equal.
The section of a source is in ``source``.
"""

from __future__ import annotations

from typing import Literal

from cosyd.config.section import Section, live, restart
from cosyd.config.source import ArrayConfig, SourceConfig, ZoneConfig

__all__ = [
    "ArrayConfig",
    "AsrConfig",
    "Config",
    "ControlConfig",
    "EndpointConfig",
    "FrontendConfig",
    "GpuConfig",
    "LogConfig",
    "MetricsConfig",
    "PathsConfig",
    "PublishConfig",
    "SourceConfig",
    "TextConfig",
    "VadConfig",
    "ZoneConfig",
]


class FrontendConfig(Section):
    """From device channels to the signals that the VAD and the recogniser hear."""

    remove_dc: bool = restart(True, "Remove the constant part of the signal (20 Hz high-pass).")
    denoise: Literal["off", "dtln"] = restart(
        "dtln", "Noise suppression model; off saves about 2 % of a core while someone speaks."
    )
    denoise_rests: bool = restart(
        True,
        "Denoise only from where the VAD, on the raw signal, hears what may be speech. A GPU never rests.",
    )
    vad_input: Literal["raw", "denoised"] = restart("raw", "Which signal the VAD hears.")
    asr_input: Literal["raw", "denoised", "blend"] = restart("blend", "Which signal the recogniser hears.")
    blend: float = restart(0.5, "blend: share of the denoised signal, the rest is raw.", ge=0, le=1)
    blend_below_db: float | None = restart(
        15.0,
        "blend: only where speech stands out from the noise by less, with denoise_rests; null is always.",
        ge=0,
        le=60,
    )
    agc: bool = live(False, "Bring speech to the same level for the recogniser, with a limiter.")
    agc_level_db: float = live(-23.0, "agc: level of speech, dBFS.", ge=-60, le=-6)
    agc_most_db: float = live(30.0, "agc: most gain.", ge=0, le=60)
    tap_s: float = restart(
        30.0,
        "Seconds of what the recogniser heard that are kept for `cosyd ctl dump`; 0 is none.",
        ge=0,
        le=600,
    )
    max_streams: int = restart(8, "Most sources at a time.", ge=1, le=256)


class VadConfig(Section):
    """Voice activity: when someone speaks."""

    threshold: float = live(0.6, "Speech starts when the probability reaches this.", gt=0, lt=1)
    release: float | None = live(
        None, "Speech ends when it falls below this; null is threshold - 0.15.", gt=0, lt=1
    )
    min_speech_ms: int = live(96, "Shorter bursts are not speech.", ge=0, le=5_000)
    min_silence_ms: int = live(200, "Shorter pauses do not end speech.", ge=0, le=5_000)


class EndpointConfig(Section):
    """When an utterance is over. All times are audio time."""

    silence_ms: int = live(800, "Silence that ends an utterance.", ge=100, le=10_000)
    short_speech_ms: int = live(400, "Speech shorter than this is very short ...", ge=0, le=5_000)
    short_silence_ms: int = live(1_200, "... and is ended by this much silence instead.", ge=100, le=10_000)
    no_speech_ms: int = live(
        5_000, "An utterance in which nothing is recognised for so long is dropped.", ge=500, le=60_000
    )
    longest_ms: int = live(
        25_000, "Longest utterance; it is split at the best pause before that.", ge=2_000, le=60_000
    )
    preroll_ms: int = live(300, "Audio kept from before speech was noticed.", ge=0, le=2_000)


class AsrConfig(Section):
    """Recognition."""

    model: str = restart(
        "moonshine-tiny-en", "Name of the model (`cosyd models list`), or the folder of a streaming one."
    )
    threads: int = restart(1, "Threads of one inference.", ge=1, le=64)
    precision: Literal["auto", "int8", "fp16", "fp32"] = restart(
        "auto",
        "Of a streaming model that comes in several: which file is taken; auto is the fastest here, "
        "measured, for as many streams as share a step.",
    )
    partial_ms: int = live(
        200, "Pause between partial results while someone speaks; 0 is none.", ge=0, le=10_000
    )
    second_pass: str | None = restart(
        None, "Beside a streaming model: the model that hears each utterance again, whole, for its final."
    )
    second_pass_ms: int | None = restart(
        1_000, "Longest wait for it; then the final is the streaming model's. null is no limit.", ge=0
    )
    second_opinion: float = restart(
        0.0,
        "Finals that the model is less sure of are decoded twice, and the surer result counts; 0 is never.",
        ge=0,
        le=1,
    )
    words: bool = live(True, "Finals tell when each word was spoken, and how sure of it the model is.")
    beam: int | None = restart(
        None,
        "Paths that the decoder of finals follows at a time; 1 is greedy, unless there are hotwords; null is "
        "4, of a streaming model 1.",
        ge=1,
        le=16,
    )
    language_model: str | None = restart(
        None, "File of word n-grams (KenLM's) beside a streaming model; needs `cosyd[lm]`."
    )
    language_weight: float = restart(0.3, "language_model: its weight beside the sound.", ge=0, le=2)
    hotwords: tuple[str, ...] = live((), "Phrases to favour, each optionally ending in `:score`.")
    hotwords_file: str | None = live(
        None, "File with more of them, one a line; it is read again when it changes."
    )
    language: str = restart(
        "auto",
        "What is spoken, as a code such as en or zh; several (en,zh): one of these; auto: any. A model of "
        "many languages finds out which.",
    )


class TextConfig(Section):
    """Finals as one would write them, in `written` beside `text`, which stays what was recognised."""

    numbers: bool = restart(False, "Numbers, times, dates and money in figures; needs `cosyd[text]`.")
    language: Literal["en", "zh", "ja"] = restart("en", "numbers: the language that is spoken.")
    script: Literal["simplified", "traditional"] | None = restart(
        None, "Chinese in these characters, whichever the model writes; needs `cosyd[text]`."
    )
    sentences: bool = restart(
        False, "A capital first and a mark last, where the model writes neither; English."
    )
    mask: tuple[str, ...] = restart((), "Words to mask with asterisks; `word*` is all that begin so.")
    mask_file: str | None = restart(None, "More of these, one a line.")
    hook: str | None = restart(
        None, "`package.module:function`, from text to text, applied last.", pattern=r"^[\w.]+:\w+$"
    )


class PublishConfig(Section):
    """Results, on ZeroMQ."""

    endpoint: str | None = restart(None, "Address of the events; null is ipc:// in paths.runtime.")
    high_water: int = restart(2_000, "Messages kept for a slow subscriber before it loses some.", ge=10)
    level_ms: int = live(200, "Pause between level messages; 0 is none.", ge=0, le=10_000)
    journal_max_age_h: float = live(168.0, "Finals older than this are forgotten.", gt=0)
    journal_max_mb: int = live(64, "Size at which the oldest finals are forgotten.", ge=1)
    curve: bool = restart(False, "Encrypt TCP and admit only clients whose keys are in paths.keys.")


class ControlConfig(Section):
    """Commands, on ZeroMQ."""

    endpoint: str | None = restart(None, "Address of the commands; null is ipc:// in paths.runtime.")


class MetricsConfig(Section):
    """Prometheus."""

    enabled: bool = restart(False, "Serve metrics over HTTP.")
    host: str = restart("127.0.0.1", "Address to serve on.")
    port: int = restart(9_464, "Port to serve on; 0 takes any.", ge=0, le=65_535)


class GpuConfig(Section):
    """Where the networks run."""

    backend: Literal["auto", "cuda", "cpu"] = restart(
        "auto", "auto uses a GPU that is there; cuda also raises an alarm where none is usable."
    )
    require_gpu: bool = restart(False, "Fail the start rather than run on the CPU.")
    engine: Literal["auto", "tensorrt", "onnxruntime"] = restart(
        "auto", "What runs networks on a GPU; auto is TensorRT where it is installed, else ONNX Runtime."
    )
    precision: Literal["fp32", "fp16", "int8"] = restart(
        "fp16", "TensorRT: fp16 or int8 where results are the same (checked after each build), else fp32."
    )
    calibration: str | None = restart(None, "TensorRT, int8: folder of WAV files of speech, 16 kHz.")
    workspace_mb: int = restart(1_024, "TensorRT: most device memory for one build.", ge=16, le=65_536)
    sparse: bool = restart(False, "TensorRT: use 2:4 structured sparsity where weights have it.")


class LogConfig(Section):
    """The log, on standard error or in the journal."""

    level: Literal["debug", "info", "warning", "error"] = live("info", "Least important message to log.")


class PathsConfig(Section):
    """Folders; null is the system's for root, the XDG ones otherwise (see docs/configuration.md)."""

    models: str | None = restart(None, "Models.")
    state: str | None = restart(None, "The journal of finals.")
    cache: str | None = restart(None, "What can be made again: compiled engines.")
    runtime: str | None = restart(None, "Sockets.")
    keys: str | None = restart(None, "CURVE keys.")


class Config(Section):
    """The whole configuration."""

    sources: tuple[SourceConfig, ...] = live((SourceConfig(),), "Sources of audio.", min_length=1)
    frontend: FrontendConfig = FrontendConfig()
    vad: VadConfig = VadConfig()
    endpoint: EndpointConfig = EndpointConfig()
    asr: AsrConfig = AsrConfig()
    text: TextConfig = TextConfig()
    publish: PublishConfig = PublishConfig()
    control: ControlConfig = ControlConfig()
    metrics: MetricsConfig = MetricsConfig()
    gpu: GpuConfig = GpuConfig()
    log: LogConfig = LogConfig()
    paths: PathsConfig = PathsConfig()
