"""A wheel of the project works from an empty folder."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tutti.tasks.project import PROJECT

SOURCES = "tutti", "cli", "flows", "tasks", "storage", "deployments", "pyproject.toml", "README.md"


@pytest.mark.slow
def test_a_wheel_carries_what_it_needs(tmp_path: Path) -> None:
    """`tutti init`, `models` and `sweep plan`, with this environment's dependencies."""
    source, site, empty = tmp_path / "source", tmp_path / "site", tmp_path / "empty"
    source.mkdir()
    empty.mkdir()
    subprocess.run(["cp", "-a", *(str(PROJECT / name) for name in SOURCES), source], check=True)
    pip = [sys.executable, "-m", "pip", "--quiet"]
    built = subprocess.run(
        [*pip, "wheel", "--no-deps", "-w", tmp_path, source], capture_output=True, text=True
    )
    if "No matching distribution found for setuptools" in built.stderr:
        pytest.skip("no setuptools to build with")
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", site, wheel], check=True)
    paths = f"{site}{os.pathsep}{sysconfig.get_path('purelib')}"
    environment = {**os.environ, "PYTHONPATH": paths, "TUTTI_HOME": str(empty / ".tutti")}
    for verb in (["init"], ["models"], ["sweep", "plan", "first.yaml"], ["--version"]):
        # -S: the environment's own link to the checkout is not followed
        command = [sys.executable, "-S", "-m", "tutti.cli.main", *verb]
        done = subprocess.run(command, cwd=empty, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (verb, done.stderr)
    assert "code v" in done.stdout, "the last verb; the wheel's code, not the checkout's"
