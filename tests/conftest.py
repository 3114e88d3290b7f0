"""Fixtures that any test may use."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent

# A shell that starts the tests in the background has them, and all they start, ignore Ctrl-C; tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """The folder of pulled models, ``NAME/FILE`` below it; skips when one of cosyd's usual ones is not there.

    ``COSYD_MODELS_DIR`` names it, else it is the default of ``paths.models``.
    """
    from cosyd.config.paths import Paths
    from cosyd.config.schema import PathsConfig
    from cosyd.models.registry import MODELS
    from cosyd.models.store import ModelStore

    named = os.environ.get("COSYD_MODELS_DIR")
    root = Path(named) if named else Paths.resolve(PathsConfig()).models
    usual = [name for name, model in MODELS.items() if not model.extra]
    missing = [name for name in usual if not ModelStore(root).installed(name)]
    if missing:
        pytest.skip(f"models not pulled into {root}: run cosyd models pull {' '.join(missing)}")
    return root


@pytest.fixture(scope="session")
def whisper_base(models_dir: Path) -> Path:
    """The folder of the model whisper-base, which is an extra one; skips when it is not there."""
    from cosyd.models.store import ModelStore

    if not ModelStore(models_dir).installed("whisper-base"):
        pytest.skip(f"not pulled into {models_dir}: run cosyd models pull whisper-base")
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed: pip install cosyd[whisper]")
    return models_dir / "whisper-base"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Recordings of speech and noise beside the repository; skips when they are not there."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    return folder
