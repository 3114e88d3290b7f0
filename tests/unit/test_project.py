"""The files around the code: unit, installation, documentation, make and CI agree with each other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cosyd.version import VERSION

REPOSITORY = Path(__file__).resolve().parents[2]
UNIT = REPOSITORY / "systemd" / "cosyd.service"
PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")])
EXPOSURE = 30  # tenths of systemd's scale of 0 to 10; it calls up to 4 "OK"


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def unit() -> dict[str, list[str]]:
    """Keys of all sections with their values in order; keys may occur several times."""
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            found.setdefault(key, []).append(value)
    return found


# --- systemd -------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
def test_systemd_finds_no_fault_in_the_unit(tmp_path: Path) -> None:
    copy = tmp_path / "cosyd.service"
    copy.write_text(UNIT.read_text().replace("/opt/cosyd/bin/cosyd", "/bin/true"))
    result = run("systemd-analyze", "verify", "--man=no", str(copy))
    complaints = [line for line in result.stderr.splitlines() if "cosyd.service" in line]
    assert complaints == []
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
def test_unit_is_hardened() -> None:
    result = run("systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE}", str(UNIT))
    if "unrecognized option" in result.stderr:
        pytest.skip("this systemd-analyze cannot judge a unit that is not installed")
    assert result.returncode == 0, result.stdout


def test_unit_does_not_start_again_what_starting_cannot_mend() -> None:
    from cosyd.errors import ConfigError, ModelMissing

    prevented = {int(code) for code in unit()["RestartPreventExitStatus"][0].split()}
    assert prevented == {ConfigError.exit_code, ModelMissing.exit_code}


def test_unit_folders_are_those_of_the_daemon() -> None:
    from cosyd.config.paths import default_paths

    keys = unit()
    given = {
        "STATE_DIRECTORY": f"/var/lib/{keys['StateDirectory'][0]}",
        "CACHE_DIRECTORY": f"/var/cache/{keys['CacheDirectory'][0]}",
        "RUNTIME_DIRECTORY": f"/run/{keys['RuntimeDirectory'][0]}",
        "CONFIGURATION_DIRECTORY": f"/etc/{keys['ConfigurationDirectory'][0]}",
    }
    # An administrator's `cosyd sub` finds the sockets of the service, which runs as another user.
    assert default_paths(given, uid=990) == default_paths({}, uid=0)


def test_unit_user_and_groups_are_made_by_sysusers() -> None:
    keys = unit()
    wanted = {keys["User"][0], keys["Group"][0], *keys["SupplementaryGroups"][0].split()}
    lines = (REPOSITORY / "systemd" / "cosyd.sysusers").read_text().splitlines()
    made = {line.split()[1] for line in lines if line[:2] in ("u ", "g ")}
    assert wanted == made | {"audio", "video"}  # these are in every Debian and Ubuntu


# --- make, setup, CI -----------------------------------------------------------------------------------


@pytest.mark.parametrize("script", ["packaging/setup.sh", "packaging/install.sh", ".ci/run"])
def test_script_is_executable_and_parses(script: str) -> None:
    path = REPOSITORY / script
    assert os.access(path, os.X_OK)
    shell = "bash" if "bash" in path.read_text().splitlines()[0] else "sh"
    assert run(shell, "-n", script).stderr == ""


def test_setup_refuses_an_unknown_purpose() -> None:
    result = run("packaging/setup.sh", "everything")
    assert result.returncode == 1
    assert result.stderr == "cosyd: unknown purpose: everything\n"


def test_setup_names_a_python_that_is_too_old(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    result = run("packaging/setup.sh", "run", PYTHON=str(old), VENV=str(tmp_path / "venv"))
    assert result.returncode == 1
    assert f"{old} is not a Python of version 3.10 or newer" in result.stderr
    assert not (tmp_path / "venv").exists()


def test_install_refuses_a_relative_prefix() -> None:
    result = run("packaging/install.sh", PREFIX="opt/cosyd", DESTDIR="/nonexistent")
    assert result.returncode == 2
    assert "PREFIX must be an absolute path" in result.stderr


def test_test_summary_counts_every_outcome(tmp_path: Path) -> None:
    suite = tmp_path / "test_outcomes.py"
    suite.write_text(
        "import pytest\n"
        "def test_good(): pass\n"
        "def test_bad(): assert False\n"
        "def test_absent(): pytest.skip('why')\n"
        "@pytest.fixture\n"
        "def broken(): raise OSError\n"
        "def test_error(broken): pass\n"
    )
    command = [".venv/bin/python" if (REPOSITORY / ".venv").exists() else "python3", "tests/run.py"]
    result = run(*command, "-n0", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(suite))
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1] == "tests: 1 passed, 2 failed, 1 skipped"


# --- documentation -------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"!?\[[^\]]*\]\(([^)\s]+)\)", page.read_text())
    inside = [target.split("#")[0] for target in targets if "://" not in target]
    assert [target for target in inside if target and not (page.parent / target).exists()] == []


def code(page: Path) -> str:
    """What a page shows as code, in blocks or in lines, one piece a line."""
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`", page.read_text(), re.DOTALL)).replace("`", "\n")


def test_make_targets_in_the_documentation_exist() -> None:
    makefile = (REPOSITORY / "Makefile").read_text()
    used = {target for page in PAGES for target in re.findall(r"\bmake ([a-z]+)", code(page))}
    assert {"demo", "test"} <= used
    assert [t for t in used if not re.search(rf"^{t}:", makefile, re.MULTILINE)] == []


def test_commands_in_the_documentation_exist() -> None:
    from cosyd.cli.parser import build_parser

    usage = build_parser().format_help()
    used = {
        word
        for page in PAGES
        for word in re.findall(r"(?:^|/|sudo )cosyd ([a-z]+)\b", code(page), re.MULTILINE)
    }
    assert {"run", "listen", "sub"} <= used
    assert [word for word in used if not re.search(rf"^ +{word}\b", usage, re.MULTILINE)] == []


def test_files_in_the_documentation_exist() -> None:
    folders = "cosyd|tests|kernels|examples|packaging|systemd|etc"
    used = {
        (page.name, path)
        for page in PAGES
        for path in re.findall(rf"(?:^|[\s(])((?:{folders})/[\w./-]+\w)(?![\w*])", code(page), re.MULTILINE)
    }
    assert ("moonshine.md", "cosyd/engine/moonshine_lean.py") in used
    assert [(page, path) for page, path in used if not (REPOSITORY / path).exists()] == []


def module(dotted: str) -> Path | None:
    """The file or folder of ``cosyd.PACKAGE.MODULE``, which may be followed by a name that is used there."""
    place, names = REPOSITORY, dotted.split(".")
    while names and (place / names[0]).is_dir():
        place /= names.pop(0)
    if names and (place / f"{names[0]}.py").is_file():
        place /= f"{names.pop(0)}.py"
    source = place if place.is_file() else place / "__init__.py"
    return place if all(name in source.read_text() for name in names) else None


def test_modules_in_the_documentation_exist() -> None:
    used = {
        (page.name, dotted)
        for page in PAGES
        for dotted in re.findall(r"(?<![\w/])cosyd(?:\.[a-z_]\w*)+", code(page))
        if not dotted.startswith(("cosyd.service", "cosyd.yaml"))
    }
    assert ("engines.md", "cosyd.engine.protocol") in used
    assert [(page, dotted) for page, dotted in used if module(dotted) is None] == []


def test_metrics_in_the_documentation_exist() -> None:
    from cosyd.runtime.metrics import Metrics

    exposed = {
        name
        for family in Metrics().registry.collect()
        for name in (family.name, f"{family.name}_total", f"{family.name}_seconds")
    }
    page = (REPOSITORY / "docs" / "operations.md").read_text()
    used = set(re.findall(r"\b(?:cosyd|asr)_[a-z_]+|\bvad_prob", page))
    assert used - exposed == set()


def test_every_field_case_has_a_test() -> None:
    """The tests name the cases that they are of; some need a GPU."""
    cases = REPOSITORY.parent / "shared" / "docs" / "field-cases.md"
    if not cases.exists():
        pytest.skip(f"no {cases}")
    wanted = {int(number) for number in re.findall(r"^(\d+)\. ", cases.read_text(), re.MULTILINE)}
    assert len(wanted) > 20
    named: set[int] = set()
    for path in (REPOSITORY / "tests").rglob("*.py"):
        for numbers in re.findall(r"[Cc]ases? ((?:\d+(?:, | and | to )?)+)", path.read_text()):
            for first, last in re.findall(r"(\d+)(?: to (\d+))?", numbers):
                named |= set(range(int(first), int(last or first) + 1))
    assert sorted(wanted - named) == []


def test_changelog_has_this_version_or_what_comes() -> None:
    text = (REPOSITORY / "CHANGELOG.md").read_text()
    newest = re.search(r"^## \[([^\]]+)\]", text, re.MULTILINE)
    assert newest is not None
    assert newest[1] in ("Unreleased", VERSION)


def test_licence_is_whole() -> None:
    text = (REPOSITORY / "LICENSE").read_text()
    assert "Apache License" in text
    assert "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION" in text
    assert "END OF TERMS AND CONDITIONS" in text
