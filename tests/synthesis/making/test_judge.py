"""Tests that parts of the candidates go through the gates in parallel: the verdicts equal those of
a sequential run, and a failure is the toolkit's own."""

import asyncio
import itertools
from typing import Any

import pytest

from tests.synthesis.example import EXAMPLE, EXTENDED, TOOLKIT, varied
from tests.synthesis.gating.lending import context_of
from tests.synthesis.lending import Lending
from tutti.tasks.synthesis.domains import Toolkit, ToolkitFailed, changed_task
from tutti.tasks.synthesis.gating import GATES, TOGETHER
from tutti.tasks.synthesis.gating.gate import GateContext
from tutti.tasks.synthesis.making import by_program
from tutti.tasks.synthesis.making.by_program import DomainRequest, judge, proposed
from tutti.tasks.synthesis.programs import PROGRAMS


@pytest.fixture(autouse=True)
def lending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROGRAMS, "lending", Lending())


async def rows_of(part: int, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return the rows of 60 candidates, a tenth of them wrong, in parts of this size."""
    monkeypatch.setattr(by_program, "PART", part)
    request = DomainRequest(domain="lending", size=60, knobs={"wrong": 1})
    domain, candidates = proposed(request, 0)
    async with Toolkit(domain) as toolkit:
        context = GateContext(domain, toolkit, request.program.solve)
        tasks = list(itertools.islice(candidates, 50))
        judged = await judge([*tasks, *tasks[:10]], context)
    assert not context.replays and not context.ruled
    return [each.as_row() for each in judged]


async def test_parts_are_judged_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of two equal tasks is dropped, in any part."""
    whole, parts = await rows_of(1000, monkeypatch), await rows_of(7, monkeypatch)
    assert whole == parts
    assert {row["gates"][-1] for row in whole if not row["accepted"]} == {"suffices", "duplicates"}
    assert all(row["gates"] == list(GATES) for row in whole if row["accepted"])


def test_the_gates_that_look_at_tasks_together_are_the_last() -> None:
    assert tuple(GATES)[-len(TOGETHER) :] == TOGETHER


async def test_a_toolkit_that_ends_its_interpreter_fails_as_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The failure is not raised as an exception group, and no part still runs afterwards."""
    monkeypatch.setattr(by_program, "PART", 2)
    ends = TOOLKIT.replace("    loan = get_loan(db, loan_id)", "    import os; os._exit(3)")
    tasks = [
        changed_task(EXTENDED, slots={"name": "Ada Long", "days": "7", "n": str(number)})
        for number in range(6)
    ]
    before = asyncio.all_tasks()
    async with context_of(varied(EXAMPLE, toolkit=ends)) as context:
        with pytest.raises(ToolkitFailed, match="ended its interpreter"):
            await judge(tasks, context)
        assert len(asyncio.all_tasks() - before) <= 1, "the guard of an idle session"
