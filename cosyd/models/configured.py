"""The models of this machine, as its configuration names their folder."""

from __future__ import annotations

from cosyd.config.load import load
from cosyd.models.store import ModelStore


def configured_store() -> ModelStore:
    """Of ``paths.models`` as the files in ``/etc/cosyd`` or the environment have it, else the default one.

    For programs that have no configuration of their own. Raises ConfigError.
    """
    return ModelStore(load().paths.models)
