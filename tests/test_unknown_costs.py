"""Tests that no consumer of costs presents a sum as exact if a part is unknown, and that every
budget ends.

Costs are random trees, and random calls of which some have an unknown cost. Each consumer is called
as its callers do.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.storage import Cost, ProgramCell, ProgramTally
from tutti.tasks.agents.commands import CommandTrajectory
from tutti.tasks.exchange.base.imported import Cell, ImportedAttempt, trial_keys, trial_rows
from tutti.tasks.reporting.measures.efficiency import _sums
from tutti.tasks.serving.gateway.calls.access import UsdBudget
from tutti.tasks.serving.gateway.calls.record import CallRecord
from tutti.tasks.serving.gateway.calls.request import CallRequest
from tutti.tasks.serving.registry.models import Prices
from tutti.tasks.serving.scheduling import Program
from tutti.tasks.sweeps.analysis.compare import SampledTasks
from tutti.tasks.sweeps.analysis.gates import FIGURES
from tutti.tasks.sweeps.run import BudgetTracker
from tutti.tasks.sweeps.run.attempt import take_spent
from tutti.tasks.sweeps.spec import Budget
from tutti.tasks.synthesis.teacher import BudgetSpent, Meter, TeacherBudget
from tutti.tasks.synthesis.teacher.budget import AnswerTokens, TeacherPrices

NOW = datetime(2026, 1, 1, tzinfo=UTC)
USD = 3.0
"""The cost of a call here: its prompt has a million tokens, at three USD."""
MOST = 40

Tree = float | None | list["Tree"]
PARTS = st.none() | st.floats(0, 1e3).map(lambda usd: round(usd, 6))
TREES = st.recursive(PARTS, lambda inner: st.lists(inner, max_size=6), max_leaves=30)


class CallCost(NamedTuple):
    """A call's role, and whether its cost is known."""

    role: str
    usd: float | None


CALLS = st.lists(
    st.builds(
        CallCost,
        st.sampled_from(["orchestrator", "expert", "judge", "user"]),
        st.sampled_from([None, USD]),
    ),
    min_size=1,
    max_size=MOST,
)


def record_of(call: CallCost) -> CallRecord:
    """Return the gateway's record: the price is known, and the usage is known if the cost is."""
    body = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
    request = CallRequest(
        b"/v1/chat/completions", "chat/completions", [], body, b"{}", "p", False, "c", "", 1,
        call.role, False, "m", False,
    )  # fmt: skip
    record = CallRecord(request, "m", http_status=200, status="ok", was_taken=True)
    record.prices = Prices(prompt=3)
    if call.usd is not None:
        record.reported.take({"usage": {"prompt_tokens": 10**6, "completion_tokens": 1}})
    return record


def unknown(calls: Sequence[CallCost], *roles: str) -> bool:
    """Return whether the cost of a call in these roles is unknown."""
    return any(call.usd is None for call in calls if not roles or call.role in roles)


def total(calls: Sequence[CallCost], *roles: str) -> float | None:
    """Return the sum of those roles, or None if a part is unknown."""
    if unknown(calls, *roles):
        return None
    return sum(call.usd or 0.0 for call in calls if not roles or call.role in roles)


@given(CALLS)
def test_attempts_of_the_gateway_and_of_harnesses(calls: list[CallCost]) -> None:
    """The costs go from the calls' records to `attempts.cost_usd` and to the budget."""
    tally = ProgramTally("a", ProgramCell("g", "m", "cap"))
    program = Program("p", 0.0)
    for call in calls:
        record = record_of(call)
        assert record.cost_usd() == call.usd
        record.spend(program)
        tally.take(record._row())
    assert tally.row("", "run:1")["cost_usd"] == total(calls)
    done = CommandTrajectory()
    aside = take_spent(done, program.spent)
    assert done.cost_usd == total(calls, "orchestrator", "expert")
    assert aside.usd == total(calls, "judge", "user")


@given(CALLS)
def test_imports_and_figures(calls: list[CallCost]) -> None:
    """The figures are those of an imported attempt, of a report's tasks and of gates."""
    rows: list[dict[str, Any]] = [
        {"role": c.role, "cost_usd": c.usd, "status": "ok"} for c in calls
    ]
    attempt = ImportedAttempt(Cell("r", "b", "m"), "t", file=Path("f"), calls=rows)
    (imported,) = trial_rows(attempt, trial_keys("x", attempt), "run")["attempts"]
    assert imported["cost_usd"] == total(calls)
    sums = _sums({"a": rows, "b": rows[:1]}, "cost_usd")
    assert sums == ([] if unknown(calls) else [total(calls), USD])
    tasks = [
        {"task_id": f"t{n % 5}", "cost_usd": c.usd, "solved": 1.0} for n, c in enumerate(calls)
    ]
    sampled = SampledTasks(tuple(tasks), 0)
    for metric in ("cost_usd", "cost_per_solved"):
        figure = FIGURES[metric](sampled)
        assert figure.value == (None if unknown(calls) else pytest.approx(USD))
        assert figure.interval is None or not unknown(calls)


@given(CALLS, st.booleans())
def test_the_budget_of_a_run(calls: list[CallCost], is_whole: bool) -> None:
    """The run's budget ends with the first unknown cost or when it is spent, whichever comes
    first."""
    limit = 5 * USD
    whole = BudgetTracker(Budget(usd=limit))
    spending = BudgetTracker(Budget(), whole) if is_whole else whole
    for place, call in enumerate(calls, 1):
        spending.add(Cost.of([call.usd]))
        reason, so_far = spending.spent(), calls[:place]
        assert (reason is None) == (place < 5 and not unknown(so_far))
        assert reason is None or ("at least" in reason.text) == unknown(so_far)
        if reason is not None:
            break
    assert spending.cost.usd == total(calls[:place])


@given(CALLS, st.floats(0.1, 10))
def test_the_budget_of_a_key(calls: list[CallCost], estimate_usd: float) -> None:
    """Unknown costs count with their estimate, so it ends; its text is never exact."""
    budget, first = UsdBudget(5 * USD), 0
    for place, call in enumerate(calls, 1):
        first += budget.spend(call.usd, estimate_usd)
        so_far = calls[:place]
        filled = sum(estimate_usd if c.usd is None else c.usd for c in so_far)
        assert budget.is_spent == (filled >= 5 * USD) or abs(filled - 5 * USD) < 1e-9
        assert ("at least" in str(budget)) == unknown(so_far)
    assert first == unknown(calls)


@given(CALLS)
def test_the_budget_of_a_teacher(calls: list[CallCost]) -> None:
    """The highest possible cost of the calls never exceeds it."""
    limit, worst_usd, made = 5 * USD, 2 * USD, 0
    meter = Meter(TeacherBudget(usd=limit), TeacherPrices(2.0, 2.0))
    for call in calls:
        try:
            worst = meter.reserve(2 * 10**6, 10**6)
        except BudgetSpent:
            break
        assert worst == worst_usd
        tokens = None if call.usd is None else AnswerTokens(10**6, 500_000)
        meter.settle(worst, tokens, None)
        made += 1
        assert meter.cost.known_usd + meter.cost.unknown * worst_usd <= limit
        assert ("at least" in meter.text) == unknown(calls[:made])
    assert made <= 4


def sum_of(tree: "Tree") -> Cost:
    """Return the cost of a tree, with its branches summed first."""
    if not isinstance(tree, list):
        return Cost.of([tree])
    total = Cost()
    for branch in tree:
        total.include(sum_of(branch))
    return total


def leaves(tree: "Tree") -> list[float | None]:
    return [x for branch in tree for x in leaves(branch)] if isinstance(tree, list) else [tree]


@given(TREES)
def test_a_sum_is_exact_only_if_all_its_parts_are_known(tree: "Tree") -> None:
    """This holds for any order and grouping; the text gives at least the known part."""
    cost, parts = sum_of(tree), leaves(tree)
    known = [part for part in parts if part is not None]
    assert abs(cost.known_usd - sum(known)) < 1e-6
    assert cost.unknown == len(parts) - len(known)
    assert (cost.usd is None) == (None in parts)
    assert f"{cost:.4f}".startswith("at least ") == (None in parts)
    assert f"{cost:.4f}".removeprefix("at least ") == f"{cost.known_usd:.4f}"
