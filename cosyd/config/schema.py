"""The configuration: one frozen model a section. Each key has its unit in its name, a default, bounds, a
sentence of description, and is *live* (a reload applies it) or *restart* (a reload only names it).

``etc/cosyd.yaml`` is generated from this file (`cosyd config show --defaults`); a test keeps them equal.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field


def live(default: Any, description: str, **bounds: Any) -> Any:
    """A key that a reload applies at once."""
    return Field(default, description=description, json_schema_extra={"reload": "live"}, **bounds)


def restart(default: Any, description: str, **bounds: Any) -> Any:
    """A key that takes effect at the next start."""
    return Field(default, description=description, json_schema_extra={"reload": "restart"}, **bounds)


class Section(BaseModel):
    """Unknown keys are errors, values are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]


class ZoneConfig(Section):
    """A sector around the array."""

    name: Name = live("zone", "Name in messages.")
    from_deg: float = live(0.0, "Where the sector begins; it goes counter-clockwise.", ge=-360, le=360)
    to_deg: float = live(360.0, "Where it ends.", ge=-360, le=360)
    listen: bool = live(True, "true: listen into it; false: whatever comes from there is to be ignored.")


class ArrayConfig(Section):
    """A source's microphone array: where its microphones are, and what to make of that."""

    geometry: Literal["respeaker-4", "respeaker-6", "linear-4", "uma-8", "xmos-7", "square-4", "free"] = live(
        "free", "A known device or arrangement, or free: as positions_m says."
    )
    positions_m: tuple[tuple[float, ...], ...] | None = live(
        None, "geometry free: x, y and z (0 where left out) of each microphone, in metres; at most 32."
    )
    channels: tuple[int, ...] | None = live(
        None, "Which channel (from 0) each microphone is; null is the geometry's own, or 0, 1, 2, ..."
    )
    reference_channels: tuple[int, ...] | None = live(
        None,
        "Channels that carry what the device plays; null is the geometry's own, [] none. Of reference_source "
        "where that is set; null is then the mean of all.",
    )
    reference_source: Name | None = live(
        None, "Another source that captures what is played, as the monitor of a playback device; mute it."
    )
    reference_lead_ms: int = live(
        20, "By how much the times of reference_source may be late; frames wait for so long.", ge=0, le=500
    )
    orientation_deg: float = live(
        0.0, "Where the device's +x points in the room; directions are given in the room.", ge=-360, le=360
    )
    beamformer: Literal["off", "delay-sum", "superdirective", "mvdr"] = live(
        "mvdr",
        "What the recogniser hears: the first microphone; a plain beam; the sharpest fixed beam; a beam that "
        "adapts to the noise around, which the denoiser tells from speech.",
    )
    steer: Literal["track", "fixed"] = live("track", "The beam follows who speaks, or stays at azimuth_deg.")
    azimuth_deg: float = live(0.0, "steer fixed: where to, in the room.", ge=-360, le=360)
    elevation_deg: float = live(0.0, "steer fixed: how far above the array's plane.", ge=-90, le=90)
    loading_db: float = live(
        -25.0, "Diagonal loading of the sharp beams: higher is more robust and less sharp.", ge=-60, le=20
    )
    zones: tuple[ZoneConfig, ...] = live((), "Sectors to listen to or to ignore; none is all around.")
    gains_db: tuple[float, ...] | None = live(
        None, "Added to each microphone, in their order; null is 0. `cosyd array calibrate` writes it."
    )
    delays_us: tuple[float, ...] | None = live(
        None, "By how much each microphone's channel is late; null is 0. `cosyd array calibrate` writes it."
    )
    echo: Literal["auto", "off"] = live(
        "auto", "Take what the device plays out of what it hears; auto: where there are reference channels."
    )
    echo_tail_ms: int = live(256, "Length of the echo path that is learnt.", ge=64, le=1_024)
    echo_delay_ms: int = live(1_000, "Longest time from the reference to its echo.", ge=0, le=2_000)
    echo_suppress_db: float = live(
        -30.0,
        "Most that is taken from what the filter leaves of the echo while nobody speaks; 0 is nothing.",
        ge=-60,
        le=0,
    )
    doa: Literal["off", "2d", "3d"] = live("2d", "Find where voices come from, in the plane or in space.")
    doa_ms: int = live(100, "Pause between doa messages of one voice.", ge=16, le=10_000)
    talkers: int = live(4, "Most voices followed at a time.", ge=1, le=8)


class SourceConfig(Section):
    """One source of audio. Sources are added, removed and changed live; a changed source is reopened."""

    name: Name = live("mic", "Name in topics and commands: lower-case letters, digits, - and _.")
    type: Literal["portaudio", "pyaudio", "file", "pipe"] = live(
        "portaudio",
        "Where the audio comes from: a device through PortAudio, whose C callback writes the ring, or "
        "through PyAudio, whose blocks a Python thread copies; a recording; raw PCM from a pipe.",
    )
    device: str | int | None = live(
        None,
        "portaudio/pyaudio: index, exact name or part of the name of the device; null is the default input.",
    )
    path: str | None = live(None, "file: the recording; pipe: a FIFO, or - for standard input.")
    rate_hz: int | None = live(
        None, "Rate to open at; null takes the device's own. pipe: required.", ge=8_000, le=192_000
    )
    channels: int | None = live(
        None, "Channels to open; null takes all the device has (at most 32).", ge=1, le=32
    )
    format: Literal["auto", "s16", "s24", "s32", "f32"] = live(
        "auto", "Sample format; auto tries s16, then others."
    )
    channel_map: tuple[int, ...] | None = live(
        None, "Which channels (from 0) the recogniser hears; null is all of them."
    )
    mix: Literal["first", "mean"] = live("mean", "How the mapped channels become one.")
    array: ArrayConfig | None = live(
        None,
        "The channels are a microphone array (see docs/array.md); takes the place of channel_map and mix.",
    )
    realtime: bool = live(True, "file: at the recording's pace; false: as fast as it can be processed.")
    loop: bool = live(False, "file: start over at the end.")
    buffer_s: float = live(30.0, "Seconds of audio that the ring keeps.", ge=2, le=600)
    block_ms: int = live(10, "portaudio/pyaudio: length of a device block.", ge=2, le=100)
    stale_ms: int = live(
        800, "A device that delivers nothing for so long counts as unplugged.", ge=100, le=60_000
    )
    reopen_ms: int = live(500, "Pause between attempts to open a device that is away.", ge=50, le=60_000)
    muted: bool = live(False, "Start muted: captured, but neither recognised nor published.")
    hotwords: tuple[str, ...] = live((), "Phrases to favour here, beside those of asr.hotwords.")


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
        300, "Pause between partial results while someone speaks; 0 is none.", ge=0, le=10_000
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
