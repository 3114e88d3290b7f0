"""Rules that concern more than one key. Bounds of single keys are in the schema."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from cosyd.config import arrays, languages
from cosyd.config.schema import ArrayConfig, Config, SourceConfig
from cosyd.config.tree import Key

MOST_MICROPHONES = 32  # channels that a source has at most


@dataclass(frozen=True)
class Finding:
    """``keys``: what the rule looked at; the first is the one to name."""

    keys: tuple[Key, ...]
    what: str


def errors(config: Config) -> list[Finding]:
    """What makes this configuration impossible."""
    found = [*_duplicate_names(config)]
    for index, source in enumerate(config.sources):
        found += _source(index, source)
    found += _references(config)
    found += _vad(config)
    found += _endpoint(config)
    found += _language(config)
    found += _addresses(config)
    if len(config.sources) > config.frontend.max_streams:
        what = f"{len(config.sources)} sources, but frontend.max_streams is {config.frontend.max_streams}"
        found.append(Finding((("sources",), ("frontend", "max_streams")), what))
    if config.gpu.require_gpu and config.gpu.backend == "cpu":
        keys: tuple[Key, ...] = (("gpu", "require_gpu"), ("gpu", "backend"))
        found.append(Finding(keys, "a GPU is required, but gpu.backend is cpu"))
    return found


def warnings(config: Config) -> list[Finding]:
    """What works but is probably not wanted."""
    found: list[Finding] = []
    if config.metrics.enabled and not is_loopback(config.metrics.host):
        found.append(
            Finding((("metrics", "host"),), "metrics can be read by anyone who reaches this address")
        )
    for index, source in enumerate(config.sources):
        for name in ("path", "loop"):
            if getattr(source, name) and source.type in ("portaudio", "pyaudio"):
                what = f"means nothing to a source of type {source.type}"
                found.append(Finding((("sources", index, name),), what))
    return found


def _duplicate_names(config: Config) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, source in enumerate(config.sources):
        if source.name in seen:
            yield Finding((("sources", index, "name"),), f"a second source named {source.name!r}")
        seen.add(source.name)


def _source(index: int, source: SourceConfig) -> Iterator[Finding]:
    def finding(what: str, *names: str) -> Finding:
        return Finding(tuple(("sources", index, name) for name in names), what)

    if source.type in ("file", "pipe") and not source.path:
        wanted = "the recording" if source.type == "file" else "a FIFO, or - for standard input"
        yield finding(f"type {source.type} needs a path: {wanted}", "path", "type")
    if source.type == "pipe" and source.rate_hz is None:
        yield finding("type pipe needs rate_hz: raw samples do not tell it", "rate_hz", "type")
    if source.channel_map is not None:
        yield from _channel_map(index, source)
    if source.array is not None:
        yield from _array(index, source, source.array)


def _array(index: int, source: SourceConfig, array: ArrayConfig) -> Iterator[Finding]:
    def finding(what: str, *names: str) -> Finding:
        return Finding(tuple(("sources", index, "array", name) for name in names), what)

    if array.geometry == "free" and not array.positions_m:
        yield finding("geometry free needs the positions of the microphones", "positions_m", "geometry")
        return
    if array.geometry != "free" and array.positions_m is not None:
        yield finding(
            f"geometry {array.geometry} has its own; write geometry: free", "positions_m", "geometry"
        )
        return
    positions = array.positions_m or arrays.PRESETS[array.geometry].positions
    if not 2 <= len(positions) <= MOST_MICROPHONES:
        yield finding(f"an array has 2 to {MOST_MICROPHONES} microphones", "positions_m")
    for what in arrays.faults_of_positions(positions):
        yield finding(what, "positions_m")
    channels, references = arrays.channels_of(array)
    for what in arrays.faults_of_channels(channels, references, len(positions), source.channels):
        yield finding(what, "channels", "reference_channels", "geometry")
    for key, what in arrays.faults_of_calibration(array.gains_db, array.delays_us, len(positions)):
        yield finding(what, key)
    names = [zone.name for zone in array.zones]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield finding(f"a second zone named {name!r}", "zones")


def _references(config: Config) -> Iterator[Finding]:
    """Sources that are the reference of another one's echo."""
    named = {source.name: source for source in config.sources}
    for index, source in enumerate(config.sources):
        if source.array is None or (name := source.array.reference_source) is None:
            continue
        key: Key = ("sources", index, "array", "reference_source")
        other = named.get(name)
        if other is None or other is source:
            others = ", ".join(n for n in named if n != source.name) or "there is none"
            yield Finding((key,), f"{name!r} is no other source; others: {others}")
            continue
        if any(each.type == "file" and not each.realtime for each in (source, other)):
            yield Finding((key,), "sources are joined by time; a file needs realtime: true for that")
        if other.channels is not None:
            for channel in source.array.reference_channels or ():
                if not 0 <= channel < other.channels:
                    what = f"{name!r} has no channel {channel}: they are 0 to {other.channels - 1}"
                    yield Finding((("sources", index, "array", "reference_channels"), key), what)


def _channel_map(index: int, source: SourceConfig) -> Iterator[Finding]:
    keys: tuple[Key, ...] = (("sources", index, "channel_map"), ("sources", index, "channels"))
    chosen = source.channel_map or ()
    most = source.channels or 32
    if not chosen:
        yield Finding(keys[:1], "must name at least one channel; null is all")
    if any(channel < 0 or channel >= most for channel in chosen):
        outside = next(channel for channel in chosen if channel < 0 or channel >= most)
        yield Finding(keys, f"no channel {outside}: they are 0 to {most - 1}")
    if len(set(chosen)) < len(chosen):
        yield Finding(keys[:1], "names a channel twice")


def _vad(config: Config) -> Iterator[Finding]:
    vad = config.vad
    if vad.release is not None and vad.release >= vad.threshold:
        what = f"must be below vad.threshold, which is {vad.threshold}"
        yield Finding((("vad", "release"), ("vad", "threshold")), what)


def _endpoint(config: Config) -> Iterator[Finding]:
    endpoint = config.endpoint
    for name in ("silence_ms", "short_silence_ms"):
        if getattr(endpoint, name) >= endpoint.longest_ms:
            what = f"must be more than endpoint.{name}, which is {getattr(endpoint, name)}"
            yield Finding((("endpoint", "longest_ms"), ("endpoint", name)), what)
    if endpoint.short_silence_ms < endpoint.silence_ms:
        what = f"must be at least endpoint.silence_ms, which is {endpoint.silence_ms}"
        yield Finding((("endpoint", "short_silence_ms"), ("endpoint", "silence_ms")), what)


def _language(config: Config) -> Iterator[Finding]:
    what = languages.fault(config.asr.language)
    if what:
        yield Finding((("asr", "language"),), what)


# --- addresses -----------------------------------------------------------------------------------------


def _addresses(config: Config) -> Iterator[Finding]:
    for section in ("publish", "control"):
        address = getattr(config, section).endpoint
        if address is None:
            continue
        keys: tuple[Key, ...] = ((section, "endpoint"), ("publish", "curve"))
        what = _wrong_address(address)
        if what:
            yield Finding(keys[:1], what)
        elif address.startswith("tcp://") and not config.publish.curve and not is_loopback(_host(address)):
            yield Finding(
                keys, "can be reached from other machines: set publish.curve: true, or bind to 127.0.0.1"
            )


def _wrong_address(address: str) -> str | None:
    """What is wrong with a ZeroMQ address; None if nothing is."""
    scheme, separator, rest = address.partition("://")
    if not separator or scheme not in ("ipc", "tcp"):
        return f"must begin with ipc:// or tcp://, not {address!r}"
    if scheme == "ipc":
        usable = PurePath(rest).is_absolute() or rest.startswith("@")
        return None if usable else "ipc:// needs an absolute path"
    port = rest.rpartition(":")[2]
    if not _host(address) or not (port == "*" or (port.isascii() and port.isdigit() and int(port) < 65_536)):
        return f"must be tcp://HOST:PORT, not {address!r}"
    return None


def _host(address: str) -> str:
    return address.removeprefix("tcp://").rpartition(":")[0].strip("[]")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address. Names other than localhost count as public."""
    if host in ("localhost", "lo"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
