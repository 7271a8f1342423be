"""Tests of the single import namespace: all our modules are below `tutti`, and nothing else is
importable."""

import subprocess
import sys
from pathlib import Path

import pytest

SHADOWED = "storage", "tasks", "flows", "cli"


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run the code in another process that starts in `folder`."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", SHADOWED)
def test_a_users_folder_does_not_shadow_ours(tmp_path: Path, name: str) -> None:
    """A project with its own `storage` imports its own, and `tutti.storage` is ours."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("MINE = True\n")
    code = f"import {name}, tutti.{name}; print({name}.MINE, hasattr(tutti.{name}, 'MINE'))"
    done = run(tmp_path, code)
    assert done.stdout == "True False\n", done.stderr


@pytest.mark.parametrize("name", SHADOWED)
def test_nothing_is_importable_by_its_plain_name(tmp_path: Path, name: str) -> None:
    """This holds outside a checkout, as in a user's own project."""
    done = run(tmp_path, f"import {name}")
    assert done.returncode == 1 and f"No module named '{name}'" in done.stderr


def test_importing_a_stage_loads_nothing_else(tmp_path: Path) -> None:
    """A face is a list of names whose modules are loaded on use."""
    code = (
        "import sys, tutti.storage, tutti.tasks.serving, tutti.tasks.sweeps.plan\n"
        "heavy = {'duckdb', 'pyarrow', 'sqlalchemy', 'pydantic', 'aiohttp', 'numpy'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = run(tmp_path, code)
    assert done.stdout == "[]\n", done.stderr
