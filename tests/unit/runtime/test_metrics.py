"""What is measured is shown under the names that dashboards know, and only as long as it is true."""

from __future__ import annotations

import urllib.request

import pytest
from prometheus_client import generate_latest

from cosyd.config.schema import MetricsConfig
from cosyd.errors import CosydError
from cosyd.runtime.ipc import RecognitionProgress, SourceProgress
from cosyd.runtime.metrics import Metrics, MetricsServer
from cosyd.types import CaptureProgress, Checkpoint


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def exposed(metrics: Metrics) -> dict[str, float]:
    lines = generate_latest(metrics.registry).decode().splitlines()
    return {name: float(value) for name, value in (x.rsplit(" ", 1) for x in lines if x[0] != "#")}


def test_a_device_that_is_away_is_down(metrics: Metrics) -> None:
    """Field case 1."""
    metrics.captured("mic", CaptureProgress(48_000, True, 0, 0))
    assert exposed(metrics)['cosyd_source_up{source="mic"}'] == 1
    metrics.captured("mic", CaptureProgress(48_000, False, 2, 960))
    found = exposed(metrics)
    assert found['cosyd_source_up{source="mic"}'] == 0
    assert found['cosyd_overruns_total{source="mic"}'] == 2
    assert found['cosyd_device_lost_frames_total{source="mic"}'] == 960


def test_the_drift_of_a_clock_is_told_once_it_is_known(metrics: Metrics) -> None:
    """Field case 9."""
    name = 'cosyd_clock_drift_ppm{source="mic"}'
    metrics.captured("mic", CaptureProgress(0, True, 0, 0))
    assert name not in exposed(metrics)
    metrics.captured("mic", CaptureProgress(0, True, 0, 0, drift_ppm=100.0))
    metrics.captured("mic", CaptureProgress(0, True, 0, 0))
    assert exposed(metrics)[name] == 100


def test_the_recogniser_s_progress(metrics: Metrics) -> None:
    mic = SourceProgress(0, Checkpoint(), behind_s=0.4, lost_frames=3, audio_s=30.0, vad_prob=0.9)
    desk = SourceProgress(0, Checkpoint(), behind_s=0.0, lost_frames=0, audio_s=10.0, vad_prob=0.1)
    metrics.recognised(RecognitionProgress({"mic": mic, "desk": desk}, 2, 5, 0.0, 40, decode_s=4.0))
    found = exposed(metrics)
    assert found["cosyd_real_time_factor"] == pytest.approx(0.1)
    assert found["cosyd_decode_queue_depth"] == 2
    assert found["cosyd_partials_coalesced_total"] == 5
    assert found['cosyd_source_behind_seconds{source="mic"}'] == 0.4
    assert found['cosyd_lost_frames_total{source="mic"}'] == 3
    assert found['vad_prob{source="desk"}'] == 0.1


def test_nothing_heard_yet_is_no_division_by_zero(metrics: Metrics) -> None:
    metrics.recognised(RecognitionProgress({}, 0, 0, 0.0, 0, decode_s=0.0))
    assert exposed(metrics)["cosyd_real_time_factor"] == 0


def test_finals_and_partials_are_counted_apart(metrics: Metrics) -> None:
    metrics.published("mic", "partial", 0.2)
    metrics.published("mic", "final", 0.12)
    metrics.published("mic", "final", -1.0)  # clocks of two processes
    found = exposed(metrics)
    assert found['asr_request_total{kind="final",source="mic"}'] == 2
    assert found['asr_request_total{kind="partial",source="mic"}'] == 1
    assert found['asr_duration_bucket{le="0.15",source="mic"}'] == 2
    assert found['asr_duration_sum{source="mic"}'] == pytest.approx(0.12)
    assert found['cosyd_partial_latency_seconds_count{source="mic"}'] == 1


def test_of_a_source_that_is_gone_nothing_is_shown(metrics: Metrics) -> None:
    for name in ("mic", "desk"):
        metrics.captured(name, CaptureProgress(0, True, 1, 1, drift_ppm=1.0))
        progress = SourceProgress(0, Checkpoint(), 0.0, 0, 1.0, 0.5)
        metrics.recognised(RecognitionProgress({name: progress}, 0, 0, 0.0, 1, 0.1))
        metrics.published(name, "final", 0.1)
        metrics.published(name, "partial", 0.1)
        metrics.gaps.labels(name).inc(5)
    metrics.forget("mic")
    left = exposed(metrics)
    assert not [name for name in left if '"mic"' in name]
    assert [name for name in left if '"desk"' in name]


def test_they_are_served_over_http_and_a_taken_port_is_named(metrics: Metrics) -> None:
    metrics.reload_ok.set(0)
    with MetricsServer(MetricsConfig(port=0), metrics) as server:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=10) as reply:
            assert b"cosyd_reload_ok 0.0" in reply.read()
        taken = MetricsServer(MetricsConfig(port=server.port), metrics)
        with pytest.raises(CosydError, match=rf"cannot serve on 127\.0\.0\.1:{server.port}.*metrics\.port"):
            taken.__enter__()
