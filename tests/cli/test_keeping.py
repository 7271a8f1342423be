"""Tests of `tutti synth task_set:ID`: one gate per command, each with its own flags."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tests.synthesis.lending import Lending
from tests.synthesis.making.measured import lending_set
from tests.synthesis.teacher.scripted_endpoint import ScriptedEndpoint, serving
from tutti import storage
from tutti.cli.main import app
from tutti.flows.synthesize import synthesize_tasks
from tutti.tasks.synthesis import JudgeRequest
from tutti.tasks.synthesis.programs import PROGRAMS


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "give one of --pass-rate, --agreement and --judge"),
        (
            ["--pass-rate", "0:1", "--agreement", "0.6"],
            "give one of --pass-rate, --agreement and --judge",
        ),
        (["--pass-rate", "0.5"], "must be LOW:HIGH"),
        (["--judge", "big", "--k", "4"], "k: task_set:00 has no such flag"),
        (["--agreement", "0.6", "--usd", "1"], "usd: task_set:00 has no such flag"),
        (["--agreement", "0.6", "--size", "9"], "size: task_set:00 has no such flag"),
        (["--agreement", "0.6"], "no task set 'task_set:00'"),
        (["--agreement", "1.5"], "least"),
        (["--judge", "nobody"], "nobody"),
    ],
)
def test_what_does_not_fit_is_named(
    flags: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    found = CliRunner().invoke(app, ["synth", "task_set:00", *flags])
    assert found.exit_code == 2, found.output
    assert words in " ".join(found.output.split())


@pytest.mark.slow
async def test_a_judge_of_the_registry_behind_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The judge's calls are recorded with their role; its "no" is in the rows of the new set."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "store"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    monkeypatch.setitem(PROGRAMS, "lending", Lending())
    with storage.open_catalog() as catalog:
        made, tasks = await lending_set(catalog, 3)
    answers = {
        f"judge-{task.task_id.rpartition(':')[2]}": [
            {"is_natural": number > 0, "is_consistent": True, "reason": "Nobody says so."}
        ]
        for number, task in enumerate(tasks)
    }
    models = tmp_path / "models.yaml"
    async with serving(ScriptedEndpoint(answers)) as endpoint:
        url = endpoint.url.removesuffix("/v1")
        entry = {"provider": "openai", "endpoint": url, "context_tokens": 32_768}
        models.write_text(yaml.safe_dump({"models": {"big": entry | {"served_name": "m"}}}))
        found = await synthesize_tasks.fn(JudgeRequest(task_set=made, judge="big", calls=9), models)
    assert {row["status"]: row["n"] for row in found["counts"]}["rejected"] == 1
    (gate,) = found["gates"]
    shown = {"gate": "judged", "shown": 3, "dropped": 1, "measured": None}
    assert gate == shown | {"example": "not natural: Nobody says so."}
    (row,) = storage.query("select role, count(*) as n from calls group by all")
    assert (row["role"], row["n"]) == ("judge", 3)
