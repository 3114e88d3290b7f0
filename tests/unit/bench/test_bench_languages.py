"""``cosyd bench languages``: what it lacks it says before it measures anything."""

import pytest

from cosyd.bench import languages
from cosyd.errors import ModelMissing


def test_a_missing_model_is_told_before_anything_is_measured(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty minutes later it would be for nothing."""
    monkeypatch.setenv("COSYD_MODELS_DIR", str(tmp_path))
    monkeypatch.setattr(languages, "make_reel", lambda *_: pytest.fail("it has begun to measure"))
    with pytest.raises(ModelMissing, match="cosyd models pull whisper"):
        languages.run(quick=True)
