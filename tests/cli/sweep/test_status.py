"""Tests of `tutti sweep status` in a terminal of 80 columns."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tutti import storage
from tutti.cli.main import app

CELL = {"sweep": "gsm8k-mock-127-0-0-1-8911", "model": "Qwen/Qwen3-30B-A3B-Instruct-2507"}
CELL |= {"policy": "passthrough", "status": "finished"}
COUNTS = {"concurrency": 128, "samples": 1319, "finished": 1319, "infra_errors": 12}


@pytest.mark.parametrize("repeats", [1, 2])
def test_names_are_folded_and_the_rest_is_whole(
    repeats: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Concurrency and state used to be truncated or omitted if names were long."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    rows = [CELL | COUNTS | {"repeat": nth} for nth in range(repeats)]
    monkeypatch.setattr(storage, "query", lambda *_: rows, raising=False)
    done = CliRunner().invoke(app, ["sweep", "status"])
    lines = done.output.splitlines()
    assert max(map(len, lines)) <= 80 and "…" not in done.output
    (first, *_) = [line.split() for line in lines if "finished" in line and "128" in line]
    assert first[-7 if repeats > 1 else -6 :] == [
        *(["128", "0"] if repeats > 1 else ["128"]),
        *("finished", "1319", "of", "1319", "12"),
    ]
    assert ("repeat" in done.output) == (repeats > 1)
