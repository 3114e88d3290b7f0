"""Programs without a configuration of their own find the models where `cosyd models pull` puts them."""

from pathlib import Path

import pytest

from cosyd import demo
from cosyd.models.configured import configured_store

PACKAGE = Path(demo.__file__).parent


@pytest.fixture(autouse=True)
def nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file and no variable says anything."""
    for name in ("COSYD_MODELS_DIR", "COSYD_PATHS__MODELS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.setattr("cosyd.config.paths.SYSTEM_CONFIG", tmp_path)


@pytest.mark.parametrize("variable", ["COSYD_MODELS_DIR", "COSYD_PATHS__MODELS"])
def test_the_environment_names_the_folder(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(tmp_path))
    assert configured_store().root == tmp_path


def test_so_does_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "cosyd.yaml").write_text("paths: {models: /srv/models}\n")
    assert configured_store().root == Path("/srv/models")


def test_the_demonstration_looks_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COSYD_MODELS_DIR", str(tmp_path))
    assert demo.main([]) == 4
    assert f"is not in {tmp_path}; run: cosyd models pull" in capsys.readouterr().err


def test_nobody_takes_the_default_for_what_is_configured() -> None:
    """Of the benchmarks and the demonstration, which have no configuration at hand."""
    sources = [PACKAGE / "demo.py", *sorted((PACKAGE / "bench").glob("*.py"))]
    assert [path.name for path in sources if "PathsConfig()" in path.read_text()] == []
