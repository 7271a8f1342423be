"""The flow `synthesize-tasks` as a plain function: real index, search service and sandbox."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tutti import storage
from tutti.cli.main import app
from tutti.flows.synthesize import synthesize_tasks
from tutti.tasks.synthesis import PROGRAMS, DomainRequest, TaskRequest
from tutti.tasks.synthesis.gating import GATES

REQUEST = TaskRequest(families=("module",), train_per_family=1, test_per_family=3)
FLAGS = ["synth", "--families", "module", "--train", "1", "--test", "3"]


@pytest.mark.timeout(240)  # embeds the standard library: seconds, a minute on a busy machine
@pytest.mark.slow
async def test_a_task_set_is_made_counted_and_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the flow, then by the verb, which prints the same set; each run is recorded."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    made = await synthesize_tasks.fn(REQUEST)
    assert made["task_set_id"].startswith("task_set:")
    assert {row["family"] for row in made["counts"]} == {"module"}
    assert {row["split"] for row in made["counts"]} == {"train", "test"}
    assert sum(row["n"] for row in made["counts"]) == 4
    rows = storage.query("select status, count(*) as n from tasks group by all")
    assert sum(row["n"] for row in rows) == 4
    assert await synthesize_tasks.fn(REQUEST) == made
    runs = storage.query("select flow, status, params from runs order by started_at")
    assert [(run["flow"], run["status"]) for run in runs] == [("synthesize-tasks", "completed")] * 2
    assert json.loads(runs[0]["params"]) == REQUEST.model_dump(mode="json")


def test_the_verb_prints_the_set_and_its_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As text and as JSON; flags become the flow's parameters."""
    given = []

    async def answer(flow: object, prefect: bool, request: TaskRequest, models: object) -> object:
        given.append((flow, prefect, request))
        counts = [{"family": "module", "split": "test", "status": "accepted", "n": 3}]
        return {"task_set_id": "task_set:1", "counts": counts, "gates": []}

    monkeypatch.setattr("tutti.cli.base.flow.as_flow_run", answer)
    shown = CliRunner().invoke(app, FLAGS)
    assert shown.stdout == "task_set:1\nmodule           test       accepted       3\n"
    assert given == [(synthesize_tasks, False, REQUEST)]
    decoded = json.loads(CliRunner().invoke(app, [*FLAGS, "--json"]).stdout)
    assert decoded["task_set_id"] == "task_set:1" and decoded["counts"][0]["n"] == 3


async def test_a_domains_set_is_made_by_the_flow_and_shown_by_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the verb: the gates' table; the flow found again gives the same set."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    request = DomainRequest(domain="arithmetic", size=12, seed=5)
    made = await synthesize_tasks.fn(request)
    assert sum(row["n"] for row in made["counts"] if row["status"] == "accepted") == 12
    assert {row["gate"] for row in made["gates"]} == set(GATES)
    (page,) = tmp_path.glob("artifacts/report-task_set-*/index.html")
    assert "12 of 12 candidates" in page.read_text()
    again = await synthesize_tasks.fn(request.model_copy(update={"workers": 4}))
    assert again["task_set_id"] == made["task_set_id"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["nowhere"], "no program 'nowhere'; known: retail"),
        (["--size", "5"], "size: stdlib has no such flag"),
        (["retail", "--train", "5"], "train_per_family: retail has no such flag"),
        (["retail", "--knob", "steps"], "--knob steps: must be NAME=NUMBER"),
        (["retail", "--knob", "steps=99"], "knobs.steps: 99 is not in"),
        (["task_set:1", "--pass-rate", "half"], "--pass-rate 'half': must be LOW:HIGH"),
        (["--plan"], "--plan: not of stdlib"),
        (["--teacher", "pocket"], "--teacher and --topic: give both"),
        (["--teacher", "nobody", "--topic", "a library"], "nobody"),
    ],
)
def test_bad_flags_are_named(
    flags: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path))
    shown = CliRunner().invoke(app, ["synth", *flags])
    assert shown.exit_code == 2 and words in shown.output


def test_the_domains_are_listed_with_their_knobs() -> None:
    text = CliRunner().invoke(app, ["synth", "--list"]).stdout
    listed = json.loads(CliRunner().invoke(app, ["synth", "--list", "--json"]).stdout)
    for name, program in PROGRAMS.items():
        assert name in text and set(listed[name]["knobs"]) == set(program.knobs)


def test_a_teachers_plan_says_what_it_will_take(tmp_path: Path) -> None:
    """Before anything starts; a model without prices is said to have none."""
    models = tmp_path / "models.yaml"
    entry = "{provider: openai, endpoint: 'http://127.0.0.1:9/v1', context_tokens: 32768}"
    models.write_text(f"models:\n  big: {entry}\n")
    flags = ["synth", "--teacher", "big", "--topic", "a library", "--size", "20", "--plan"]
    shown = CliRunner().invoke(app, [*flags, "--models", str(models)])
    assert shown.exit_code == 0, shown.output
    assert (
        "calls if no answer must be corrected" in shown.stdout and "price unknown" in shown.stdout
    )
    shown = CliRunner().invoke(app, [*flags, "--json", "--models", str(models)])
    found = json.loads(shown.stdout)
    assert found["calls"] > 40 and found["usd"] is None
