"""Tests that a wheel of the project works from an empty folder, with each supported Python."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tutti.tasks.platform.project import PROJECT

SOURCES = (
    *("tutti", "cli", "flows", "tasks", "storage", "assets/pocket", "deployments"),
    *("prefect.yaml", "pyproject.toml", "README.md"),
)
PYTHONS = "3.11", "3.12", "3.13"
OFFLINE = (
    "error sending request",
    "Failed to fetch",
    "No matching distribution found for setuptools",
)
OURS = "PYTHONPATH", "TUTTI_HOME", "TUTTI_MODELS_PYTHON", "VIRTUAL_ENV"


@pytest.fixture(scope="module")
def uv() -> str:
    """Return the program uv of this environment or of the machine."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.is_file() else shutil.which("uv")
    return found or pytest.skip("no uv to install with")


@pytest.fixture(scope="module")
def wheel(uv: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel built from a copy of the sources without `.git`."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    names = [f"./{name}" for name in SOURCES]
    subprocess.run(["cp", "-a", "--parents", *names, source], cwd=PROJECT, check=True)
    _uv(uv, "build", "--wheel", "--python", sys.executable, "--out-dir", str(out), str(source))
    (built,) = out.glob("*.whl")
    return built


def _uv(uv: str, *words: str) -> None:
    links = ["--find-links", os.environ["PIP_FIND_LINKS"]] if "PIP_FIND_LINKS" in os.environ else []
    command = [uv, *words, *(links if words[0] != "venv" else [])]
    done = subprocess.run(command, capture_output=True, text=True)
    if any(words in done.stderr for words in OFFLINE):
        pytest.skip(f"no package index: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


def _interpreter(version: str) -> str:
    """Return an interpreter on the path, or one installed by pyenv, whose links on the path need
    not work."""
    found = shutil.which(f"python{version}")
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for python in [*([found] if found else []), *map(str, kept)]:
        if subprocess.run([python, "-c", ""], capture_output=True).returncode == 0:
            return python
    pytest.skip(f"no Python {version} on this machine")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", PYTHONS)
def test_a_wheel_works_in_an_empty_folder(
    version: str, uv: str, wheel: Path, tmp_path: Path
) -> None:
    """The wheel contains suites, registry, weights, deployments and pins; no hint names a
    Makefile."""
    environment = tmp_path / "environment"
    _uv(uv, "venv", "--python", _interpreter(version), str(environment))
    pins = str(PROJECT / "deployments" / "constraints.txt")
    python = str(environment / "bin" / "python")
    _uv(uv, "pip", "install", "--python", python, "--constraint", pins, str(wheel))
    empty = tmp_path / "empty"
    empty.mkdir()
    clean = {name: value for name, value in os.environ.items() if name not in OURS}

    def tutti(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(environment / "bin" / "tutti"), *words]
        return subprocess.run(command, cwd=empty, env=clean, capture_output=True, text=True)

    for verb in (["--version"], ["init"], ["sweep", "plan", "first.yaml"]):
        done = tutti(*verb)
        assert done.returncode == 0, (verb, done.stderr)
        assert "code v" in done.stdout or verb != ["--version"], (
            "the wheel's code, not a checkout's"
        )
    assert "checkpoint:" in (empty / "models.yaml").read_text()
    examined = tutti("doctor", "--quick", "--json")
    checks = {check["name"]: check for check in json.loads(examined.stdout)}
    required = {name: each["found"] for name, each in checks.items() if each["required"]}
    assert examined.returncode == 0, required
    assert checks["pocket checkpoint"]["status"] == "ok"
    fixes = [check["fix"] for check in checks.values()]
    assert not any(fix.startswith(("make", "git")) for fix in fixes)
    assert "--requirement" in checks["models environment"]["fix"]
    trained = tutti("train", "pocket")
    assert trained.returncode == 1 and "`tutti doctor` shows how" in trained.stderr
    code = "from tutti.cli.setup.ui import *; made = written(PROJECT, PROJECT.parent / 'x')"
    code += "; print(made.night.name)"
    deployed = subprocess.run([python, "-c", code], cwd=empty, capture_output=True, text=True)
    assert deployed.stdout == "nightly\n", deployed.stderr
