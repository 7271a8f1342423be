"""Tests of `tutti derive`: its flags become requests, and an error is one message."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from tests.synthesis.preferences.test_by_teacher import Endpoint, Script
from tests.synthesis.teacher.scripted_endpoint import serving
from tutti import storage
from tutti.cli.main import app
from tutti.flows.synthesize import synthesize_tasks
from tutti.tasks.synthesis import DomainRequest
from tutti.tasks.synthesis.preferences import PreferenceRequest


def run(*arguments: str, home: Path) -> Result:
    return CliRunner().invoke(app, arguments, env={"TUTTI_HOME": str(home), "COLUMNS": "200"})


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "give --preferences, or --skills and --difficulty, or --profile FOLDER"),
        (["task_set:9", "--preferences", "--difficulty"], "give --preferences, or --skills"),
        (["--preferences"], "name the task set, as `tutti derive task_set:ID"),
        (["task_set:9", "--preferences", "--teacher", "big"], "a second model checks"),
        (["task_set:9", "--skills", "teacher"], "name the model with --teacher"),
        (["task_set:9", "--difficulty", "--teacher", "big"], "labels with --skills teacher"),
        (["task_set:9", "--difficulty", "--pairs", "3"], "pairs"),
        (["task_set:9", "--preferences"], "no task set 'task_set:9' of a domain"),
        (["--profile", "out", "--agent", "nope"], "nope.yaml: no such file; shipped agents"),
    ],
)
def test_what_does_not_fit_is_one_message(flags: list[str], words: str, tmp_path: Path) -> None:
    found = run("derive", *flags, home=tmp_path / "home")
    assert found.exit_code == 2 and words in found.output
    assert "Traceback" not in found.output


def test_preferences_skills_and_a_profile_by_the_verb(tmp_path: Path) -> None:
    home = tmp_path / "home"
    made = json.loads(run("synth", "arithmetic", "--size", "12", "--json", home=home).stdout)
    task_set = made["task_set_id"]
    found = json.loads(run("derive", task_set, "--preferences", "--json", home=home).stdout)
    assert found["task_set_id"] != task_set and len(found["gates"]) == 4
    labelled = run(
        "derive", found["task_set_id"], "--skills", "template", "--difficulty", "--json", home=home
    )
    assert json.loads(labelled.stdout)["counts"]
    said = run("derive", "--profile", str(tmp_path / "out"), home=home)
    assert said.stdout.strip() == str(tmp_path / "out" / "profile.yaml")
    assert (tmp_path / "out" / "profile.yaml").is_file()


@pytest.mark.slow
async def test_two_teachers_through_a_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls of both are recorded under their models, with the teacher's role."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "store"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    models = tmp_path / "models.yaml"
    made = await synthesize_tasks.fn(DomainRequest(domain="arithmetic", size=12))
    request = PreferenceRequest(
        task_set=made["task_set_id"], teacher="big", checker="other", pairs=8
    )
    async with serving(Endpoint(Script())) as endpoint:
        entry = {"provider": "openai", "endpoint": endpoint.url, "context_tokens": 32_768}
        entries = {name: entry | {"served_name": name} for name in ("big", "other")}
        models.write_text(yaml.safe_dump({"models": entries}))
        done = await synthesize_tasks.fn(request, models=models)
        calls = endpoint.calls()
    assert any(row["status"] == "accepted" for row in done["counts"])
    rows = storage.query("select role, model, count(*) as n from calls group by all order by model")
    assert [(row["role"], row["model"]) for row in rows] == [
        ("teacher", "big"),
        ("teacher", "other"),
    ]
    assert sum(row["n"] for row in rows) == calls
