"""What the daemon is told of a source, from its feed."""

from __future__ import annotations

from cosyd.runtime.feed import Feed
from cosyd.runtime.ipc import Recognized, SourceProgress
from cosyd.types import Backend, Final, Partial, RecognitionEvent


def recognised(feed: Feed, event: RecognitionEvent) -> Recognized:
    """An event with the checkpoint after it, when it was heard, and from where."""
    captured_ns = feed.time_ns(_newest_sample(event)) if isinstance(event, Partial | Final) else 0
    rate_hz = feed.spec.rate_hz
    checkpoint = feed.current_checkpoint
    voice = None
    if feed.voices is not None and isinstance(event, Final):
        voice = feed.voices.between(event.start_sample, event.end_sample)
    return Recognized(feed.name, event, checkpoint, rate_hz, captured_ns, feed.vad_prob, voice)


def _newest_sample(event: Partial | Final) -> int:
    """The last sample that went into a result: of a final, the end of the silence that ended it."""
    return event.decided_sample if isinstance(event, Final) else event.end_sample


def progress_of(feed: Feed, backends: dict[str, Backend]) -> SourceProgress:
    """A snapshot. ``backends``: what the stages of its front end run on."""
    return SourceProgress(
        feed.position,
        feed.current_checkpoint,
        feed.behind_s,
        feed.lost_frames,
        feed.audio_s,
        feed.vad_prob,
        backends,
    )
