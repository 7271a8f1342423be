"""Tests of `tutti run --parallel`: parallel thinking from flags, with a scripted endpoint."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.evaluations.scripted import lines, players, text_of, tutti
from tutti.cli.main import app
from tutti.storage import Home, query


def solve(body: dict[str, Any]) -> dict[str, Any]:
    """Give a different wrong answer for each seed; a new solution, synthesized from the shown ones,
    is correct."""
    right = "#### 7" if text_of(body).count("####") > 1 else f"#### {100 + body.get('seed', 0)}"
    return {"content": right}


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return lines(tmp_path / "test.jsonl", [{"question": "What is 3 + 4?", "answer": "#### 7"}])


@pytest.mark.slow
def test_solutions_are_combined(
    tmp_path: Path, questions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run makes three solutions and one combining call; the stored suite has these settings."""
    home = tmp_path / "home"
    monkeypatch.setenv("TUTTI_HOME", str(home))
    with players(tmp_path, solver=solve) as registry:
        given = ["--model", "solver", "--models", str(registry), "--source", str(questions)]
        wanted = ["--temperature", "0.7", "--parallel", "3", "--combine", "synthesis"]
        tutti("run", "gsm8k", *given, *wanted, "--name", "several", "--concurrency", "1")
    kept = yaml.safe_load((home / "suites/several.yaml").read_text())
    assert kept["harness"]["parallel"] == {"solutions": 3, "combine": "synthesis"}
    runs = query("select name, count(*) n from tool_runs group by 1 order by 1", Home(home))
    assert [(row["name"], row["n"]) for row in runs] == [("solution", 3), ("synthesis", 1)]
    roles = "select role, count(*) n from calls semi join attempts using (attempt_id) group by 1"
    counts = {row["role"]: row["n"] for row in query(roles, Home(home))}
    assert counts == {"orchestrator": 3, "synthesizer": 1}
    (attempt,) = query("select correct from attempts", Home(home))
    assert attempt["correct"]


@pytest.mark.parametrize(
    ("benchmark", "flags", "said"),
    [
        ("gsm8k", "--parallel 8", "temperature 0 gives equal solutions; use 0.7"),
        ("gsm8k", "--combine select", "--combine select: of several solutions; add --parallel"),
        ("gsm8k", "--parallel 1 --temperature 1", "greater than or equal to 2"),
        ("gsm8k", "--parallel 2 --combine vote --temperature 1", "'synthesis'"),
        ("gsm8k", "--parallel 2 --temperature 1 --python once", "leave out harness.python"),
        ("stdlib", "--parallel 2 --temperature 1", "stdlib needs tools"),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, questions: Path, benchmark: str, flags: str, said: str
) -> None:
    registry = tmp_path / "models.yaml"
    entry = {"provider": "openai", "endpoint": "http://127.0.0.1:9/v1", "context_tokens": 8192}
    registry.write_text(json.dumps({"models": {"m": entry}}))
    command = ["run", benchmark, "--model", "m", "--models", str(registry), *flags.split()]
    home = tmp_path / "home"
    done = CliRunner().invoke(app, command, env={"TUTTI_HOME": str(home), "COLUMNS": "200"})
    assert done.exit_code == 2 and said in done.stderr, done.output
    assert not (home / "suites").exists()


def test_help_shows_the_flags() -> None:
    shown = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).stdout
    assert "--parallel" in shown and "--combine" in shown
