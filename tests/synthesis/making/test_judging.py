"""Tests of a second model's verdicts on a set: "no" drops a task, a reply without a verdict is an
error and not a pass, and nothing is paid for twice."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.synthesis.making.measured import lending_set, verdicts
from tests.synthesis.teacher.conftest import QUICK
from tests.synthesis.teacher.scripted_endpoint import Raw, ScriptedEndpoint, serving
from tutti import storage
from tutti.tasks.synthesis.domains import DomainTask
from tutti.tasks.synthesis.making.judging import JudgeAnswer, JudgedSource, JudgeRequest
from tutti.tasks.synthesis.making.teachers import TeacherPool
from tutti.tasks.synthesis.teacher import BudgetSpent, TeacherBudget, TeacherEndpoint, TeacherFailed
from tutti.tasks.task_sets import PASSED, make_set

YES = {"is_natural": True, "is_consistent": True, "reason": ""}
NO = {"is_natural": True, "is_consistent": False, "reason": "Nobody asked for that book."}


def script(tasks: Sequence[DomainTask], *answers: Any) -> Mapping[str, Sequence[Any]]:
    """Return the reply to the question about each task; the replies in a list are given in turn."""
    given = [each if isinstance(each, list) else [each] for each in answers]
    names = [f"judge-{task.task_id.rpartition(':')[2]}" for task in tasks]
    return dict(zip(names, given, strict=True))


async def judged(
    endpoint: ScriptedEndpoint, catalog: storage.Catalog, task_set: str, calls: int | None = None
) -> tuple[str, str]:
    where = TeacherEndpoint(endpoint.url, "m", call_s=5.0, retry=QUICK, role="judge")
    request = JudgeRequest(task_set=task_set, judge="big", calls=calls, concurrency=1)
    pool = TeacherPool([where], [None], TeacherBudget(calls=calls), request.concurrency)
    source = JudgedSource(request, pool, catalog)
    return await make_set(source, catalog), source.spent


async def test_no_drops_and_an_answer_without_a_verdict_does_not_pass(
    catalog: storage.Catalog,
) -> None:
    made, tasks = await lending_set(catalog, 4)
    vague = Raw("It looks fine to me: yes.")
    answers = script(tasks, YES, NO, [vague], [vague, YES])
    async with serving(ScriptedEndpoint(answers)) as endpoint:
        kept, spent = await judged(endpoint, catalog, made)
        again = await judged(endpoint, catalog, made)
        roles = {headers["x-tutti-role"] for _, _, headers in endpoint.asked}
        prompt = endpoint.asked[0][1]["messages"][0]["content"]
    found = verdicts(catalog, kept)
    passed = [found[task.task_id]["passed"] for task in tasks]
    assert passed == [True, False, False, True]
    why = found[tasks[1].task_id]["reason"]
    assert why == "not consistent: Nobody asked for that book."
    assert found[tasks[2].task_id]["reason"].startswith("error: no verdict: teacher: judge-")
    assert again == (kept, "") and spent.endswith("unknown cost)")
    assert roles == {"judge"}
    assert "extend_loan(" in prompt and tasks[0].world.scenario.reason in prompt
    assert max(endpoint.answered.values()) == 1


async def test_a_verdict_that_is_not_read_would_let_all_pass(
    catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the reference the checks answer "no" and nothing parses it."""
    made, tasks = await lending_set(catalog, 2)
    passed = property(lambda answer: PASSED)
    monkeypatch.setattr(JudgeAnswer, "verdict", passed)
    async with serving(ScriptedEndpoint(script(tasks, YES, NO))) as endpoint:
        kept, _ = await judged(endpoint, catalog, made)
    assert [row["passed"] for row in verdicts(catalog, kept).values()] == [True, True]


async def test_what_was_paid_is_kept_where_the_budget_is_spent(catalog: storage.Catalog) -> None:
    made, tasks = await lending_set(catalog, 3)
    async with serving(ScriptedEndpoint(script(tasks, YES, NO, YES))) as endpoint:
        with pytest.raises(BudgetSpent, match="2 calls is spent"):
            await judged(endpoint, catalog, made, calls=2)
        kept, _ = await judged(endpoint, catalog, made)
        assert endpoint.calls() == 3
    assert sum(row["passed"] for row in verdicts(catalog, kept).values()) == 2
    assert not list(catalog.home.artifacts.glob("*.work"))


async def test_an_endpoint_that_fails_judges_nothing(catalog: storage.Catalog) -> None:
    """Such a failure is neither a pass nor a drop: there is no set, and the next run continues."""
    made, tasks = await lending_set(catalog, 2)
    no_key = Raw(status=401, text="no key")
    broken = script(tasks, no_key, no_key)
    async with serving(ScriptedEndpoint(broken)) as endpoint:
        with pytest.raises(TeacherFailed, match="401"):
            await judged(endpoint, catalog, made)
    vague = Raw("Fine.")
    async with serving(ScriptedEndpoint(script(tasks, vague, vague))) as endpoint:
        with pytest.raises(TeacherFailed, match="bad_json"):
            await judged(endpoint, catalog, made)
