"""Tests of scoring again: from the store alone; old rows stay, and flips are listed."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.sweeps.conftest import Sweep, plan_of
from tests.sweeps.tasks_entered import enter_tasks
from tutti.storage import commit
from tutti.tasks.scoring import SCORERS, Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.rules.short_answer import Exact
from tutti.tasks.sweeps.analysis.rescore import ScoringRequest, _scorer_of, rescore
from tutti.tasks.sweeps.plan.estimate import outlook_of
from tutti.tasks.sweeps.spec.suite import SuiteError


class Lenient:
    """Scorer for which everything is correct."""

    name, version, needs = "lenient", "9", "pure"

    async def score(self, target: object, attempted: Submission, means: ScoringResources) -> Score:
        """Score the attempt's last message as correct."""
        return Score(self.name, self.version, 1.0, True, attempted.text[:20])


async def test_the_same_scorer_flips_nothing(sweep: Sweep) -> None:
    """Each attempt gets a new row."""
    plan = plan_of()
    enter_tasks(sweep.catalog, plan)
    await sweep.run(plan, sweep.enter(plan))
    found = await rescore(plan.sweep_id, sweep.catalog)
    assert (found.scored, found.flipped, found.failed) == (6, [], {})
    assert sweep.sql("select count(*), count(distinct attempt_id) from scores") == [(12, 6)]


async def test_a_flip_is_from_the_verdict_that_figures_show(sweep: Sweep) -> None:
    """With several scorers at one time it is the attempt's own; it used to be any of theirs."""
    plan = plan_of()
    enter_tasks(sweep.catalog, plan)
    await sweep.run(plan, sweep.enter(plan))
    key = ("sweep_id", "cell_id", "attempt_id", "scored_at")
    rows = [
        dict(zip(key, row, strict=True))
        for row in sweep.sql(f"select {', '.join(key)} from scores")
    ]
    for scorer in ("a", "z"):
        more = {"scorer": scorer, "value": 0.0, "correct": False}
        commit(sweep.catalog, {"scores": [row | more for row in rows]})
    assert sweep.sql("select distinct is_right from counted") == [(True,)]
    assert (await rescore(plan.sweep_id, sweep.catalog)).flipped == []


class Fails(Exact):
    """The benchmark's scorer, which fails for some answers like an unreachable judge."""

    def __init__(self, *answers: str) -> None:
        self.answers = answers

    async def score(
        self, target: Mapping[str, Any], attempted: Submission, means: ScoringResources
    ) -> Score:
        if attempted.answer in self.answers:
            raise ScorerFailed("out of order")
        return await super().score(target, attempted, means)


COUNTS = "select n, correct, score from results"


async def test_what_the_scorer_failed_on_is_scored_later_and_counts(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan has the count and the command; nothing else is scored again, no attempt is
    rewritten, and then the plan reuses the cell."""
    plan = plan_of()
    enter_tasks(sweep.catalog, plan)
    working = SCORERS["exact"]
    monkeypatch.setitem(SCORERS, "exact", Fails("2", "3"))
    await sweep.run(plan, sweep.enter(plan))
    assert sweep.sql(COUNTS) == [(4, 4, 1.0)]
    (cell,) = outlook_of(plan, sweep.catalog).cells
    assert (cell.decision, cell.missing, cell.unscored) == ("re-score", 0, 2)
    assert cell.reason == f"samples lost to the scorer: 2: `tutti score {plan.suite.name} --lost`"
    found = await rescore(plan.sweep_id, sweep.catalog, ScoringRequest(lost=True))
    assert (found.scored, set(found.failed.values())) == (0, {"out of order"})
    assert sweep.sql(COUNTS) == [(4, 4, 1.0)], "a failed attempt to score is no score"
    monkeypatch.setitem(SCORERS, "exact", working)
    found = await rescore(plan.sweep_id, sweep.catalog, ScoringRequest(lost=True))
    assert (found.scored, found.failed, found.flipped) == (2, {}, [])
    assert sweep.sql("select count(*), count(distinct attempt_id) from scores") == [(6, 6)]
    assert sweep.sql("select count(*) from attempts where status = 'scorer_error'") == [(2,)]
    assert sweep.sql(COUNTS) == [(6, 6, 1.0)]
    (cell,) = outlook_of(plan, sweep.catalog).cells
    assert (cell.decision, cell.unscored) == ("reuse", 0)
    assert (await rescore(plan.sweep_id, sweep.catalog, ScoringRequest(lost=True))).scored == 0


async def test_flips_are_against_the_newest_verdict(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first verdict is not used."""
    monkeypatch.setitem(SCORERS, "lenient", Lenient())
    plan = plan_of()
    enter_tasks(sweep.catalog, plan)
    sweep.agent.odd["what is 1 + 1"] = ["so \\boxed{7}"]
    await sweep.run(plan, sweep.enter(plan))
    await rescore(plan.sweep_id, sweep.catalog, ScoringRequest(scorer="lenient"))
    assert (
        await rescore(plan.sweep_id, sweep.catalog, ScoringRequest(scorer="lenient"))
    ).flipped == []
    (flip,) = (await rescore(plan.sweep_id, sweep.catalog, ScoringRequest(scorer="exact"))).flipped
    assert (flip["before"], flip["now"]) == (True, False)


async def test_what_flips_is_named_and_what_was_is_kept(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scorer has another version."""
    monkeypatch.setitem(SCORERS, "lenient", Lenient())
    plan = plan_of()
    enter_tasks(sweep.catalog, plan)
    sweep.agent.odd["what is 1 + 1"] = ["so \\boxed{7}"]
    await sweep.run(plan, sweep.enter(plan))
    found = await rescore(plan.sweep_id, sweep.catalog, ScoringRequest(scorer="lenient"))
    assert [(flip["answer"], flip["before"], flip["now"]) for flip in found.flipped] == [
        ("7", False, True)
    ]
    rows = sweep.sql("select scorer, count(*), sum(correct::int) from scores group by 1 order by 1")
    assert rows == [("exact", 6, 5), ("lenient", 6, 6)]


def test_replies_without_a_scorer_say_what_to_do() -> None:
    """The replies come from `tutti generate`; a scorer named by a flag is used."""
    with pytest.raises(SuiteError, match="name one with --scorer, such as math"):
        _scorer_of({"scorer": "none"}, None, False)
    assert _scorer_of({"scorer": "none"}, "math", False).name == "math"


async def test_an_unknown_scorer_is_refused_with_the_known(sweep: Sweep) -> None:
    """The error is raised before anything is written."""
    plan = plan_of()
    enter_tasks(sweep.catalog, plan)
    await sweep.run(plan, sweep.enter(plan))
    for name in ("exakt", "judge"):
        with pytest.raises(SuiteError, match="known: exact"):
            await rescore(plan.sweep_id, sweep.catalog, ScoringRequest(scorer=name))
    assert sweep.sql("select count(*) from scores") == [(6,)]
