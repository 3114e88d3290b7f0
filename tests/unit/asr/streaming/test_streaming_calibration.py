"""A calibration beside a streaming model: fitted on what its network says, told by all that load it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cosyd.asr.confidence import Calibration
from cosyd.asr.recognizers import open_streaming
from cosyd.cli.models_calibrate import _open
from cosyd.config.schema import AsrConfig
from cosyd.models.store import ModelStore


@pytest.mark.parametrize("family", ["zipformer2-ctc"])
def test_it_is_found_beside_the_model_and_fitted_without_it(
    folder_of: Callable[[str], Path], voices: list[NDArray[np.float32]], tmp_path: Path, family: str
) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(folder_of(family), folder)
    asr, store = AsrConfig(model=str(folder)), ModelStore(tmp_path)

    def told() -> list[float | None]:
        recognizer = open_streaming(asr, folder, 1)
        slot = recognizer.open()
        recognizer.streams.push(slot, voices[0])
        words = recognizer.finish(slot).words
        recognizer.close()
        return [word.conf for word in words]

    own = told()
    assert len(own) > 3
    Calibration(slope=0.0, offset=0.0).save(folder)
    assert told() == pytest.approx([0.5] * len(own))
    with ExitStack() as opened:
        raw = [word.conf for word in _open(asr, store, opened)(voices[0]).words]
    assert raw == own
