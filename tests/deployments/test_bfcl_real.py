"""Tests of our harness with the real `bfcl-eval` against its own checkers.

They need `TUTTI_OFFICIAL_BFCL`, the Python of `make bfcl`; without it these tests are skipped.
"""

import os
import subprocess
from pathlib import Path

import pytest

from bench.evaluations import bfcl_package

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def package() -> tuple[str, Path]:
    """Return the Python and the package's data folder."""
    python = os.environ.get("TUTTI_OFFICIAL_BFCL")
    if not python:
        pytest.skip("TUTTI_OFFICIAL_BFCL names no Python with bfcl-eval (docs/evaluations.md)")
    ask = "import bfcl_eval; print(bfcl_eval.__path__[0])"
    run = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    return python, Path(run.stdout.strip()) / "data"


@pytest.mark.parametrize("category", bfcl_package.MULTI_TURN)
def test_turns_agree_with_the_checker(package: tuple[str, Path], category: str) -> None:
    """The first three tasks are compared, with gold and changed calls."""
    found = bfcl_package.turns(*package, [category], 3)
    assert sum(found.n.values()) == 12 and found.differing == []
    assert found.right["gold"] == 3 and found.right["left_out"] < 3


def test_java_and_javascript_agree_with_the_checker(package: tuple[str, Path]) -> None:
    """All tasks are compared, with gold and changed calls."""
    found = bfcl_package.code(*package)
    assert sum(found.n.values()) == 600 and found.differing == []
    assert found.right["gold"] == 138
