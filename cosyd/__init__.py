"""cosyd: an edge daemon that turns microphone arrays into text on ZeroMQ."""

from cosyd.version import VERSION as __version__

__all__ = ["__version__"]
