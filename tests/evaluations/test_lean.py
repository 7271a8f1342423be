"""Tests of miniF2F from suite to report, with a scripted prover and a fake of Lean in the
sandbox."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.evaluations.scripted import LONGEST_S, START, lines, players, sweep, text_of, tutti
from tests.scoring.lean.conftest import stand_in_command
from tutti.tasks.sandbox.walls import strongest_level

pytestmark = pytest.mark.slow

STEPS = {"one": "rfl", "two": "wrong", "three": "other assumption"}
STRICT = {"source": "minif2f", "rule": "strict"}
SUITE = {
    "name": "proofs",
    "benchmark": "minif2f",
    "model": "solver",
    "concurrency": [2],
    "policies": ["passthrough"],
    "data": {"source": "minif2f"},
    "limits": {"max_turns": 1},
}


def prove(body: dict[str, Any]) -> dict[str, Any]:
    """Return the proof of the theorem that the prompt names."""
    text = text_of(body)
    name = next((name for name in STEPS if f"theorem {name} :" in text), None)
    if name is None:  # the first call of a run, which asks whether anybody is there
        return {"content": "yes"}
    return {"content": f"A plan.\n```lean4\ntheorem {name} : 1 = 1 := by\n  {STEPS[name]}\n```"}


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if strongest_level() == "limits":
        pytest.skip("no walls on this machine")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    monkeypatch.delenv("TUTTI_LEAN_PROJECT", raising=False)
    rows = [
        {
            "name": name,
            "split": "test",
            "informal_prefix": "/-- So it is. -/\n",
            "formal_statement": f"theorem {name} : 1 = 1 := by\n",
            "header": "import Mathlib\n\n",
        }
        for name in STEPS
    ]
    lines(tmp_path / "minif2f/test.jsonl", rows)


def test_a_sweep_and_the_other_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The published rule accepts a proof with an additional axiom; ours rejects it for the same
    answers."""
    monkeypatch.setenv("TUTTI_LEAN_COMMAND", stand_in_command())
    with players(tmp_path, solver=prove) as registry:
        rows = sweep(tmp_path, registry, SUITE)
        assert {row["scorer"] for row in rows} == {"lean4"}
        assert sorted(json.loads(row["detail"])["status"] for row in rows) == [
            *("completed", "completed", "failed")
        ]
        again = sweep(tmp_path, registry, SUITE | {"name": "strict", "data": STRICT})
    assert sorted(json.loads(row["detail"])["status"] for row in again) == [
        *("axioms", "completed", "failed")
    ]
    told = tutti("report", "proofs")
    assert "NeMo-Skills' lean4-proof" in told
    assert "lean4_strict" in tutti("report", "strict")
    rescored = tutti("score", "proofs", "--scorer", "lean4_strict")
    assert "3 attempts scored, 1 flipped" in rescored and "right -> wrong" in rescored


def test_without_lean_nothing_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is raised before any call and lists the commands that create a project."""
    monkeypatch.delenv("TUTTI_LEAN_COMMAND", raising=False)
    (tmp_path / "proofs.yaml").write_text(yaml.safe_dump(SUITE))
    with players(tmp_path, solver=prove) as registry:
        done = subprocess.run(
            [
                *(sys.executable, "-c", START, "sweep", "run", "proofs.yaml"),
                *("--models", str(registry)),
            ],
            env=os.environ | {"COLUMNS": "80"},
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
    said = done.stdout + done.stderr
    assert done.returncode and "Traceback" not in said
    assert "TUTTI_LEAN_PROJECT" in said and "lake exe cache get" in said
