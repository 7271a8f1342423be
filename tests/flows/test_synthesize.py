"""The flow `synthesize-tasks` as a plain function: real index, search service and sandbox."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tutti import storage
from tutti.cli.main import app
from tutti.flows.synthesize import synthesize_tasks
from tutti.tasks.synthesis import TaskRequest

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

    async def answer(flow: object, prefect: bool, parameters: TaskRequest) -> object:
        given.append((flow, prefect, parameters))
        counts = [{"family": "module", "split": "test", "status": "accepted", "n": 3}]
        return {"task_set_id": "task_set:1", "counts": counts}

    monkeypatch.setattr("tutti.cli.setup.prefect_server.as_flow_run", answer)
    shown = CliRunner().invoke(app, FLAGS)
    assert shown.stdout == "task_set:1\nmodule           test       accepted       3\n"
    assert given == [(synthesize_tasks, False, REQUEST)]
    decoded = json.loads(CliRunner().invoke(app, [*FLAGS, "--json"]).stdout)
    assert decoded["task_set_id"] == "task_set:1" and decoded["counts"][0]["n"] == 3
