"""Tests of a teacher's domain as a task set: gated, stored, resumed, and nothing is paid for twice.

No strong model was available: the responses are hand-written.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.conftest import NewCatalog
from tests.synthesis.teacher.conftest import QUICK
from tests.synthesis.teacher.lending import SCRIPT, SIZES
from tests.synthesis.teacher.scripted_endpoint import ScriptedEndpoint, serving
from tutti import storage
from tutti.flows.synthesize import synthesize_tasks
from tutti.tasks.sandbox import SandboxUnavailable
from tutti.tasks.synthesis import TeacherDomainSource, TeacherPool, TeacherSetRequest
from tutti.tasks.synthesis.domains import Toolkit, read_domain_folder
from tutti.tasks.synthesis.making.by_program import SetUnfinished
from tutti.tasks.synthesis.teacher import BudgetSpent, TeacherBudget, TeacherEndpoint
from tutti.tasks.task_sets import make_set

REQUEST = TeacherSetRequest(topic="the desk of a small library", teacher="big", **SIZES)
STATUS = "select status, count(*) as n from tasks where task_set_id = $id group by all order by all"


@pytest.fixture
def catalog(tmp_path: Path, new_catalog: NewCatalog) -> Iterator[storage.Catalog]:
    with new_catalog(storage.Home(tmp_path / "store")) as opened:
        yield opened


class TeacherSet(NamedTuple):
    """Result of a request."""

    task_set_id: str
    spent: str


async def made(
    endpoint: ScriptedEndpoint, catalog: storage.Catalog, request: TeacherSetRequest = REQUEST
) -> TeacherSet:
    where = TeacherEndpoint(endpoint.url, "m", call_s=5.0, retry=QUICK)
    budget = TeacherBudget(request.usd, request.calls)
    source = TeacherDomainSource(
        request, TeacherPool([where], [None], budget, request.concurrency), catalog
    )
    return TeacherSet(await make_set(source, catalog), source.spent)


async def test_its_tasks_pass_the_gates_and_are_a_set(catalog: storage.Catalog) -> None:
    async with serving(ScriptedEndpoint(SCRIPT)) as endpoint:
        found = await made(endpoint, catalog)
        calls = endpoint.calls()
        assert (await made(endpoint, catalog)).task_set_id == found.task_set_id
        assert endpoint.calls() == calls and found.spent.startswith(f"{calls} calls")
    entry = catalog.artifact(found.task_set_id)
    assert entry is not None and entry["detail"]["asked"]["teacher"] == "big"
    assert {each[0] for each in entry["detail"]["chain_rejects"]} == {"task", "evolution"}
    domain, tasks = read_domain_folder(next(entry["path"].glob("*-0000")))
    assert domain.lineage["generator"] == "teacher" and domain.lineage["prompts"]
    kept = list(tasks)
    async with Toolkit(domain) as toolkit:
        replays = await toolkit.replay(kept)
    assert kept and [each.after for each in replays] == [task.world.expected for task in kept]
    rows = storage.query(STATUS, catalog.home, {"id": found.task_set_id})
    assert {row["status"]: row["n"] for row in rows}["accepted"] == len(kept)
    assert not list(catalog.home.artifacts.glob("*.work")), "its answers are in the lineage now"


async def test_a_teacher_whose_code_could_not_run_is_not_asked(
    catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUTTI_SANDBOX", "none")
    async with serving(ScriptedEndpoint(SCRIPT)) as endpoint:
        with pytest.raises(SandboxUnavailable, match="TUTTI_SANDBOX=none"):
            await made(endpoint, catalog)
        assert endpoint.calls() == 0


async def test_a_spent_budget_keeps_what_was_paid_for(catalog: storage.Catalog) -> None:
    """Runs of four calls each continue until the set is complete, and no response is paid for
    twice."""
    small = REQUEST.model_copy(update={"calls": 4})
    async with serving(ScriptedEndpoint(SCRIPT)) as endpoint:
        with pytest.raises(BudgetSpent, match="the budget of 4 calls is spent"):
            await made(endpoint, catalog, small)
        assert endpoint.calls() == 4
        with pytest.raises(SetUnfinished, match=r"rows are not finished, .*same command goes on"):
            await made(endpoint, catalog, REQUEST.model_copy(update={"calls": 7}))
        assert endpoint.calls() == 11
        found = await made(endpoint, catalog)
        assert max(endpoint.answered.values()) == 1
    assert catalog.artifact(found.task_set_id) is not None


@pytest.mark.slow
async def test_by_the_flow_through_a_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The teacher's calls are recorded with their role and belong to one program."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "store"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    models = tmp_path / "models.yaml"
    async with serving(ScriptedEndpoint(SCRIPT)) as endpoint:
        entry = {"provider": "openai", "endpoint": endpoint.url, "context_tokens": 32_768}
        models.write_text(yaml.safe_dump({"models": {"big": entry | {"served_name": "m"}}}))
        done = await synthesize_tasks.fn(REQUEST, models=models)
        calls = endpoint.calls()
    assert any(row["status"] == "accepted" for row in done["counts"])
    (row,) = storage.query("select role, count(*) as n, count(distinct attempt_id) as p from calls "
                           "group by all")  # fmt: skip
    assert (row["role"], row["n"], row["p"]) == ("teacher", calls, 1)
