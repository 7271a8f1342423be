"""Tests of `tutti synth --from INDEX`: flags become the flow's parameters, a plan generates
nothing, and errors are one line."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.synthesis.documents.corpora import index_of, write_files
from tutti import storage
from tutti.cli.main import app
from tutti.flows.synthesize import synthesize_tasks
from tutti.tasks.synthesis import DocumentsRequest
from tutti.tasks.synthesis.documents.gates import DOCUMENT_GATES


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an index in the command line's store."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "store"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    with storage.open_catalog() as catalog:
        return index_of(write_files(tmp_path / "files"), catalog)


def test_flags_become_the_flows_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    async def answer(flow: object, prefect: bool, *arguments: Any) -> object:
        given.append((flow, *arguments))
        return {"task_set_id": "task_set:1", "counts": [], "gates": []}

    monkeypatch.setattr("tutti.cli.base.flow.as_flow_run", answer)
    flags = ["synth", "--from", "index:1", "--size", "9", "--seed", "4"]
    shown = CliRunner().invoke(app, flags)
    assert shown.stdout.startswith("task_set:1"), shown.output
    ((flow, request, _),) = given
    assert flow is synthesize_tasks
    assert request == DocumentsRequest(index="index:1", size=9, seed=4)


def test_a_plan_says_what_is_to_be_had_and_makes_nothing(index: Path) -> None:
    shown = CliRunner().invoke(app, ["synth", "--from", str(index), "--plan", "--size", "100"])
    assert shown.exit_code == 0, shown.output
    assert "12 documents, 12 passages, 36 candidates" in shown.stdout
    assert "fewer than the 100 asked for" in shown.stdout
    found = json.loads(
        CliRunner().invoke(app, ["synth", "--from", str(index), "--plan", "--json"]).stdout
    )
    assert found["candidates"] == 36 and set(found["dropped"]) <= set(DOCUMENT_GATES)
    assert not storage.query("select * from tasks")


def test_a_teachers_plan_has_calls_and_dollars(index: Path, tmp_path: Path) -> None:
    models = tmp_path / "models.yaml"
    entry = "{provider: openai, endpoint: 'http://127.0.0.1:9/v1', context_tokens: 32768"
    models.write_text(
        f"models:\n  big: {entry}, prices: {{prompt: 1.0, completion: 4.0}}}}\n  odd: {entry}}}\n"
    )
    flags = ["synth", "--from", str(index), "--size", "12", "--plan", "--models", str(models)]
    shown = CliRunner().invoke(app, [*flags, "--teacher", "big", "--json"])
    found = json.loads(shown.stdout)
    assert found["calls"] == 3 and found["usd"] > 0 and found["seconds"] > 0
    shown = CliRunner().invoke(app, [*flags, "--teacher", "odd"])
    assert "3 calls if no answer must be corrected" in shown.stdout
    assert "price unknown" in shown.stdout


@pytest.mark.parametrize(
    ("flags", "words", "code"),
    [
        (["--from", "index:0", "--plan"], "there is no index 'index:0'; `tutti index FOLDER`", 2),
        (["--from", "INDEX", "--train", "5"], "train_per_family: --from has no such flag", 2),
        (["--from", "INDEX", "--workers", "2"], "workers: --from has no such flag", 2),
        (["--from", "INDEX", "--topic", "pumps"], "topic: --from has no such flag", 2),
        (["--from", "INDEX", "--usd", "5"], "--usd: is a teacher's; name one", 2),
        (["--from", "INDEX", "--size", "0"], "size", 2),
        (["--from", "INDEX", "--teacher", "nobody"], "nobody", 2),
        (["retail", "--from", "INDEX"], "retail: --from makes no domain; leave it out", 2),
        (["--from", "INDEX", "--size", "999"], "of 999 questions passed the gates", 1),
    ],
)
def test_what_is_wrong_is_told(flags: list[str], words: str, code: int, index: Path) -> None:
    named = [str(index) if each == "INDEX" else each for each in flags]
    shown = CliRunner().invoke(app, ["synth", *named])
    assert shown.exit_code == code and words in shown.output, shown.output
