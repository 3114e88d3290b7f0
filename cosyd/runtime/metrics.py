"""Prometheus metrics. The only importer of ``prometheus_client``.

Names: ``cosyd_*`` with base units, and beside them the field's own ``asr_request_total``, ``asr_duration``
and ``vad_prob``, so that existing dashboards and alert rules work.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cosyd.config.schema import MetricsConfig
from cosyd.errors import CosydError
from cosyd.runtime.ipc import RecognitionProgress, SourceProgress
from cosyd.runtime.supervision import WorkerStatistics
from cosyd.types import Backend, CaptureProgress, GpuUsage

# Seconds from the last sample to publication: 150 ms is the target, 400 ms the usual alert threshold.
LATENCY_BUCKETS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 1.0, 2.0, 5.0)


class MirroredCounter:
    """A counter that a worker keeps and reports; here it is only shown.

    A worker that restarts begins at zero, which Prometheus' ``rate`` understands.
    """

    def __init__(self, name: str, text: str, labels: list[str]) -> None:
        self._about = name, text, labels
        self._values: dict[tuple[str, ...], float] = {}

    def set(self, value: float, *labels: str) -> None:
        self._values[labels] = value

    def forget(self, *labels: str) -> None:
        self._values.pop(labels, None)

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily

        name, text, labels = self._about
        family = CounterMetricFamily(name, text, labels=labels)
        for values, value in list(self._values.items()):  # at once: the loop changes it meanwhile
            family.add_metric(list(values), value)
        yield family


class Metrics:
    """All metrics of one daemon, in a registry of its own."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = CollectorRegistry()
        source = ["source"]

        def gauge(name: str, text: str, labels: list[str]) -> Any:
            return Gauge(name, text, labels, registry=self.registry)

        def counter(name: str, text: str, labels: list[str]) -> Any:
            return Counter(name, text, labels, registry=self.registry)

        def histogram(name: str, text: str, labels: list[str]) -> Any:
            return Histogram(name, text, labels, buckets=LATENCY_BUCKETS, registry=self.registry)

        def mirrored(name: str, text: str, labels: list[str]) -> MirroredCounter:
            mirror = MirroredCounter(name, text, labels)
            self.registry.register(mirror)
            return mirror

        self.up = gauge("cosyd_source_up", "1 while the source delivers audio", source)
        self.vad_prob = gauge("vad_prob", "Probability of speech in the newest block", source)
        self.behind = gauge("cosyd_source_behind_seconds", "Captured, not recognised yet", source)
        self.audio = mirrored("cosyd_audio_seconds", "Audio read by the recogniser", source)
        self.lost = mirrored("cosyd_lost_frames", "Frames the recogniser was too slow for", source)
        self.overruns = mirrored("cosyd_overruns", "Times the device lost audio", source)
        self.device_lost = mirrored("cosyd_device_lost_frames", "Frames the device lost", source)
        self.drift = gauge("cosyd_clock_drift_ppm", "Device clock against the machine's", source)
        self.gaps = counter("cosyd_gap_frames", "Frames that were never captured", source)
        self.queue_depth = gauge("cosyd_decode_queue_depth", "Decodes waiting", [])
        self.coalesced = mirrored("cosyd_partials_coalesced", "Partials replaced by newer ones", [])
        self.decode_seconds = mirrored("cosyd_decode_seconds", "Time spent in the recogniser", [])
        self.real_time_factor = gauge("cosyd_real_time_factor", "Recogniser time per audio time", [])
        self.requests = counter("asr_request", "Finals and partials published", ["source", "kind"])
        self.duration = histogram("asr_duration", "Last sample used to publication, seconds", source)
        self.partial_latency = histogram("cosyd_partial_latency_seconds", "The same of partials", source)
        self.restarts = mirrored("cosyd_worker_restarts", "Restarts of a worker", ["worker"])
        self.reload_ok = gauge("cosyd_reload_ok", "0 after a reload that was refused", [])
        self.reload_ok.set(1)
        self.journal_errors = mirrored("cosyd_journal_errors", "Events that could not be kept", [])

        gpu = "cosyd_gpu_memory"
        self.gpu_used = gauge(f"{gpu}_used_bytes", "GPU memory that cosyd uses", [])
        self.gpu_reserved = gauge(f"{gpu}_reserved_bytes", "GPU memory that cosyd holds", [])
        self.gpu_peak = gauge(f"{gpu}_peak_bytes", "Most GPU memory that cosyd has used", [])
        self.gpu_device_used = gauge(f"{gpu}_device_used_bytes", "GPU memory in use by all programs", [])
        self.gpu_total = gauge(f"{gpu}_device_total_bytes", "GPU memory there is", [])
        self.gpu_load = gauge("cosyd_gpu_load_ratio", "Share of time in which the GPU was busy", [])
        self.gpu_fallbacks = mirrored("cosyd_gpu_memory_fallbacks", "Requests that the reserve served", [])
        self.gpu_moved = mirrored("cosyd_gpu_streams_moved", "Streams that went to the CPU", ["cause"])
        self.backend = gauge("cosyd_backend_info", "1: what a stage runs on", ["source", "stage", "backend"])
        self._backends: dict[str, dict[str, Backend]] = {}

    def gpu(self, usage: GpuUsage) -> None:
        """Memory and load of the GPU as the worker sees them."""
        self.gpu_used.set(usage.used)
        self.gpu_reserved.set(usage.reserved)
        self.gpu_peak.set(usage.peak)
        self.gpu_device_used.set(usage.device_used)
        self.gpu_total.set(usage.device_total)
        if usage.load is not None:
            self.gpu_load.set(usage.load)
        self.gpu_fallbacks.set(usage.fallbacks)
        for cause, count in usage.moved.items():
            self.gpu_moved.set(count, cause)

    def runs_on(self, source: str, backends: dict[str, Backend]) -> None:
        """What the stages of a source run on now."""
        if self._backends.get(source) == backends:
            return
        self.backend.remove_by_labels({"source": source})
        self._backends[source] = backends
        for stage, backend in backends.items():
            self.backend.labels(source, stage, backend.name).set(1)

    def captured(self, source: str, progress: CaptureProgress) -> None:
        self.up.labels(source).set(progress.capturing)
        self.overruns.set(progress.overruns, source)
        self.device_lost.set(progress.lost_frames, source)
        if progress.drift_ppm is not None:
            self.drift.labels(source).set(progress.drift_ppm)

    def recognised(self, progress: RecognitionProgress) -> None:
        for name, source in progress.sources.items():
            self._source(name, source)
        self.queue_depth.set(progress.queue_depth)
        self.coalesced.set(progress.coalesced)
        self.decode_seconds.set(progress.decode_s)
        heard_s = sum(source.audio_s for source in progress.sources.values())
        self.real_time_factor.set(progress.decode_s / heard_s if heard_s else 0.0)

    def _source(self, name: str, source: SourceProgress) -> None:
        self.behind.labels(name).set(source.behind_s)
        self.audio.set(source.audio_s, name)
        self.lost.set(source.lost_frames, name)
        self.vad_prob.labels(name).set(source.vad_prob)

    def published(self, source: str, kind: str, latency_s: float) -> None:
        """``kind`` is partial or final."""
        self.requests.labels(source, kind).inc()
        latency = self.duration if kind == "final" else self.partial_latency
        latency.labels(source).observe(max(0.0, latency_s))

    def forget(self, source: str) -> None:
        """The source was removed: its gauges would stay as they were for ever."""
        self._backends.pop(source, None)
        for metric in (
            self.up,
            self.vad_prob,
            self.behind,
            self.drift,
            self.gaps,
            self.requests,
            self.backend,
        ):
            metric.remove_by_labels({"source": source})
        for metric in (self.duration, self.partial_latency):
            metric.remove_by_labels({"source": source})
        for mirror in (self.audio, self.lost, self.overruns, self.device_lost):
            mirror.forget(source)

    def worker(self, statistics: WorkerStatistics) -> None:
        self.restarts.set(statistics.restarts, statistics.name)


class MetricsServer:
    """Serves a registry over HTTP. Context manager; ``port`` is the real one."""

    def __init__(self, config: MetricsConfig, metrics: Metrics) -> None:
        self._config = config
        self._metrics = metrics
        self.port = 0

    def __enter__(self) -> MetricsServer:
        from prometheus_client import start_http_server

        where = f"{self._config.host}:{self._config.port}"
        try:
            self._server, self._thread = start_http_server(
                self._config.port, self._config.host, self._metrics.registry
            )
        except OSError as error:
            raise CosydError(
                f"metrics: cannot serve on {where}: {error.strerror}; change metrics.port"
            ) from error
        self.port = self._server.server_port
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
