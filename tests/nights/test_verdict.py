"""Tests of a night's verdict: stages by their gates, the baseline, and early ends."""

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from tests.sweeps.analysis.test_compare import Store
from tutti import storage
from tutti.storage import Cost
from tutti.storage import catalog as cat
from tutti.tasks.nights.notify import night_dict, night_page
from tutti.tasks.nights.record import (
    BEGUN,
    Record,
    accept_night,
    begin_night,
    enter_night,
    last_accepted_night,
    night_records,
)
from tutti.tasks.nights.spec import Night, NightFile
from tutti.tasks.nights.verdict import (
    NO_BASELINE,
    NightContext,
    StageResult,
    judge_night,
    measure_stages,
)
from tutti.tasks.serving import EngineFailed
from tutti.tasks.serving.errors import RegistryError
from tutti.tasks.sweeps import SuiteError
from tutti.tasks.sweeps.run import BudgetTracker
from tutti.tasks.sweeps.spec.groups import Budget
from tutti.tasks.sweeps.spec.suite import Suite

FIRST = date(2026, 11, 1)
SUITE = {"policies": ["cap"], "concurrency": [8]}
# Of fewer than 60 tasks not even equal answers show a difference below 0.05.
RIGHT, WRONG, MOST, FEWER = ([1.0] * n + [0.0] * (100 - n) for n in (100, 0, 80, 60))
HALF = RIGHT[:50] + WRONG[:50]
MARGIN, BOUND = {"margin": 0.05}, {"at_least": 0.5}
Scores = Sequence[float] | Exception


class Nights:
    """Nights of one file, measured by adding cells of known scores."""

    def __init__(self, store: Store, **stages: dict[str, Any]) -> None:
        self.catalog, self.store = store.catalog, store
        self.file = NightFile.model_validate({"stages": stages or {"full": {"suite": SUITE}}})
        self.measured: list[str] = []
        self.results: list[StageResult] = []
        self.suites: list[Suite] = []

    async def measure(
        self, day: int, spending: BudgetTracker | None = None, **scores: Scores
    ) -> Record:
        """Measure the night of that day with each stage's `scores` or its engine's failure."""
        night = Night(self.file.name, FIRST + timedelta(days=day))
        begin_night(self.catalog, night)
        last = last_accepted_night(self.catalog, night)
        self.measured = []

        async def measure(suite: Suite) -> str:
            stage = suite.name.removeprefix(f"{night.label}-") if len(scores) > 1 else "full"
            self.measured.append(stage)
            self.suites.append(suite)
            given = scores[stage]
            if isinstance(given, Exception):
                raise given
            sweep = self.store.sweep(suite.name)
            self.store.cell(sweep, given)
            return sweep

        spending = spending or BudgetTracker(Budget())
        context = NightContext(self.file, night, last, self.catalog, spending)
        found = await measure_stages(context, measure)
        self.results = found
        return enter_night(self.catalog, judge_night(night, found, last))

    def rows(self) -> list[tuple[Any, ...]]:
        """Return verdict and reason of the stored nights, oldest first."""
        sql = "select verdict, reason from verdicts where metric = 'night' order by reason"
        return [tuple(row.values()) for row in storage.query(sql, self.catalog.home)]


Make = Callable[..., Nights]


@pytest.fixture
def nights(catalog: storage.Catalog) -> Make:
    """Return a maker of nights with given stages."""
    store = Store(catalog)
    return lambda **stages: Nights(store, **stages)


def stage(*gates: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a stage of the file."""
    return {"suite": SUITE, "gates": list(gates), **more}


async def test_the_first_night_is_inconclusive_and_accepted(nights: Make) -> None:
    """There is no baseline; its bounds passed, so it is the baseline of the next night."""
    found = nights(full=stage(MARGIN, BOUND))
    record = await found.measure(0, full=RIGHT)
    assert (record.verdict, record.baseline) == ("inconclusive", None)
    assert NO_BASELINE in record.reason and "first whole night" in (record.accepted or "")
    assert [each.status for each in found.results[0].outcomes] == ["inconclusive", "passed"]
    record = await found.measure(1, full=RIGHT)
    assert (record.verdict, record.baseline) == ("same", "nightly-2026-11-01")
    assert record.accepted == "all gates passed"


async def test_a_first_night_whose_bound_fails_is_no_baseline(nights: Make) -> None:
    """A night whose bound is inconclusive is no baseline either."""
    found = nights(full=stage(MARGIN, BOUND))
    record = await found.measure(0, full=WRONG)
    assert (record.verdict, record.accepted) == ("worse", None)
    record = await found.measure(1, full=HALF)
    assert (record.verdict, record.accepted) == ("inconclusive", None)
    assert (await found.measure(2, full=RIGHT)).baseline is None


async def test_the_baseline_is_the_last_accepted_night_not_the_one_before(nights: Make) -> None:
    """A slow decline is not accepted night by night, because each night is compared with the last
    good one."""
    found = nights()
    assert (await found.measure(0, full=RIGHT)).accepted
    for day, scores in ((1, FEWER), (2, MOST), (3, RIGHT)):
        record = await found.measure(day, full=scores)
        assert record.baseline == "nightly-2026-11-01"
        assert (record.verdict == "same") == (day == 3) and bool(record.accepted) == (day == 3)
    assert (await found.measure(4, full=RIGHT)).baseline == "nightly-2026-11-04"
    assert [verdict for verdict, _ in found.rows()] == [
        "inconclusive", "worse", "worse", "same", "same",
    ]  # fmt: skip


async def test_better_is_better_than_the_baseline_not_than_a_bound(nights: Make) -> None:
    found = nights(full=stage({"margin": 0.2}, BOUND))
    await found.measure(0, full=MOST)
    assert (await found.measure(1, full=RIGHT)).verdict == "better"
    assert (await found.measure(2, full=RIGHT)).verdict == "same"


async def test_a_night_is_accepted_by_hand_with_a_reason(nights: Make) -> None:
    """The night stays accepted when it is judged again; unknown nights and an empty reason are
    refused."""
    found = nights()
    await found.measure(0, full=RIGHT)
    assert (await found.measure(1, full=WRONG)).verdict == "worse"
    label = "nightly-2026-11-02"
    record = accept_night(found.catalog, label, "the tasks are harder now")
    assert record.accepted == "by hand: the tasks are harder now" and record.verdict == "worse"
    assert (await found.measure(1, full=WRONG)).accepted == record.accepted
    assert (await found.measure(2, full=WRONG)).baseline == label
    with pytest.raises(SuiteError, match="nights: nightly-2026-11-01, "):
        accept_night(found.catalog, "nightly", "x")
    with pytest.raises(SuiteError, match="--why"):
        accept_night(found.catalog, label, " ")


async def test_smoke_ends_the_night_where_it_fails(nights: Make) -> None:
    """Other stages do so if the file says so; stages that were not reached give no result."""
    stages = {name: stage(BOUND) for name in ("smoke", "guard", "full")}
    found = nights(**stages)
    record = await found.measure(0, smoke=WRONG, guard=RIGHT, full=RIGHT)
    assert found.measured == ["smoke"] and record.verdict == "worse" and record.whole
    assert [each.status for each in found.results] == ["failed", "skipped", "skipped"]
    assert found.results[2].reason == "not measured: smoke failed"
    record = await found.measure(1, smoke=RIGHT, guard=WRONG, full=RIGHT)
    assert found.measured == ["smoke", "guard", "full"] and record.verdict == "worse"
    again = nights(**stages | {"guard": stage(BOUND, stops=True)})
    await again.measure(2, smoke=RIGHT, guard=WRONG, full=RIGHT)
    assert again.measured == ["smoke", "guard"]


async def test_stages_have_sweeps_and_baselines_of_their_own(nights: Make) -> None:
    """A stage that the accepted night lacks is inconclusive until a night with it is accepted."""
    found = nights(smoke=stage(BOUND), full=stage(MARGIN))
    record = await found.measure(0, smoke=RIGHT, full=MOST)
    assert record.accepted and list(record.sweeps) == ["smoke", "full"]
    assert [suite.name for suite in found.suites] == [
        "nightly-2026-11-01-smoke", "nightly-2026-11-01-full",
    ]  # fmt: skip
    assert (await found.measure(1, smoke=RIGHT, full=MOST)).verdict == "same"
    more = nights(smoke=stage(BOUND), full=stage(MARGIN), extra=stage(MARGIN))
    record = await more.measure(2, smoke=RIGHT, full=MOST, extra=MOST)
    assert record.verdict == "inconclusive" and not record.accepted
    assert "has no such stage" in record.reason


async def test_a_suite_may_name_its_baseline(nights: Make) -> None:
    """Margins then refer to that baseline; a missing one is the reason of the verdict."""
    suite = SUITE | {"report": {"baseline": "pinned"}}
    found = nights(full={"suite": suite, "gates": [MARGIN]})
    record = await found.measure(0, full=RIGHT)
    assert "baseline pinned is not in the store" in record.reason and not record.accepted
    found.store.cell(found.store.sweep("pinned"), RIGHT)
    record = await found.measure(1, full=RIGHT)
    assert record.verdict == "same" and "pinned" in found.results[0].against


async def test_an_engine_that_does_not_start_makes_the_night_inconclusive(nights: Make) -> None:
    """The verdict is not worse; the night is incomplete and never a baseline."""
    stages = {"smoke": stage(BOUND), "full": stage(MARGIN)}
    found = nights(**stages)
    await found.measure(0, smoke=RIGHT, full=RIGHT)
    failed = EngineFailed("pocket did not answer in 600 s\nlog: …")
    record = await found.measure(1, smoke=failed, full=RIGHT)
    assert (record.verdict, record.accepted, record.whole) == ("inconclusive", None, False)
    assert "EngineFailed: pocket did not answer in 600 s" in record.reason
    assert "log" not in record.reason and found.measured == ["smoke"]
    assert [each.status for each in found.results] == ["inconclusive"] * 2
    again = await found.measure(0, smoke=failed, full=RIGHT)
    assert again.accepted and again.whole  # what is whole is not undone by a later run
    record = await found.measure(2, smoke=WRONG, full=failed)
    assert record.verdict == "worse"  # what was measured was worse
    with pytest.raises(RegistryError):  # for somebody to mend: no verdict at all
        await found.measure(3, smoke=RegistryError("no such model"), full=RIGHT)
    assert found.rows()[-1] == ("inconclusive", f"nightly-2026-11-04: {BEGUN}")


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        (Cost(2.0), "the budget of 2 USD is spent (2.00)"),
        (Cost(2.0, 1), "the budget of 2 USD is spent (at least 2.00)"),
        (Cost(0.5, 1), "the budget of 2 USD cannot be counted (at least 0.50)"),
    ],
)
async def test_a_budget_that_is_spent_ends_the_night(nights: Make, cost: Cost, said: str) -> None:
    """Stages share the night's budget, each within its own; a stage that is not reached is
    inconclusive."""
    found = nights(smoke=stage(BOUND), full=stage(BOUND))
    night = BudgetTracker(Budget(usd=2))
    record = await found.measure(0, night, smoke=RIGHT, full=RIGHT)
    assert record.verdict == "same"
    BudgetTracker(Budget(usd=9), night).add(cost)  # a stage's
    record = await found.measure(1, night, smoke=RIGHT, full=RIGHT)
    assert found.measured == [] and record.verdict == "inconclusive" and not record.whole
    assert said in record.reason


async def test_a_stage_that_lacks_samples_is_inconclusive(nights: Make) -> None:
    """The reason says what ended its cells; samples lost by infrastructure count as tried."""
    found = nights(full=stage(BOUND))
    await found.measure(0, full=RIGHT)
    sweep = found.store.sweep("nightly-2026-11-02")
    cell = found.store.cell(sweep, RIGHT)
    with found.catalog.transaction() as connection:
        change = {"status": "incomplete", "reason": "the budget of 1 minutes is spent"}
        connection.execute(sa.update(cat.cells).where(cat.cells.c.cell_id == cell).values(change))
        for place in range(2):
            sample = {"sample_id": f"s{place}", "cell_id": cell, "task_id": "t"}
            connection.execute(sa.insert(cat.samples).values(sample | {"trial": 0, "position": 0}))
    night = Night("nightly", FIRST + timedelta(days=1))

    async def judged() -> Record:
        async def measure(suite: Suite) -> str:
            return sweep

        context = NightContext(found.file, night, None, found.catalog, BudgetTracker(Budget()))
        results = await measure_stages(context, measure)
        return judge_night(night, results, None)

    record = await judged()
    assert (record.verdict, record.whole) == ("inconclusive", False)
    assert "2 samples are not measured: the budget of 1 minutes is spent" in record.reason
    for place, status in enumerate(("infra_error", "ok")):
        row: dict[str, Any] = {"attempt_id": f"a{place}", "cell_id": cell, "task_id": "t"}
        row |= {"sample_id": f"s{place}", "trial": 0, "attempt": 1, "run_id": "run:1"}
        row |= {"state": "done", "status": status}
        found.catalog.upsert(cat.attempt_states, row)
    assert (await judged()).verdict == "same"
    with found.catalog.transaction() as connection:
        connection.execute(sa.delete(cat.cells).where(cat.cells.c.cell_id == cell))
    assert "1 of 1 cells are not measured" in (await judged()).reason


async def test_a_night_that_is_cut_off_is_inconclusive_in_the_store(nights: Make) -> None:
    """A night is inconclusive from its start; a night with a verdict keeps it when it is started
    again."""
    found = nights()
    night = Night("nightly", FIRST)
    begin_night(found.catalog, night)
    assert found.rows() == [("inconclusive", f"{night.label}: {BEGUN}")]
    known = night_records(found.catalog, "nightly")[FIRST]
    assert not known.whole and known.accepted is None
    await found.measure(0, full=RIGHT)
    before = night_records(found.catalog, "nightly")
    begin_night(found.catalog, night)
    assert night_records(found.catalog, "nightly") == before
    assert night_records(found.catalog, "another") == {}


async def test_the_page_says_what_was_compared_with_what(nights: Make) -> None:
    """The page and its JSON have the texts, n, interval and p."""
    found = nights(full=stage(MARGIN, BOUND))
    await found.measure(0, full=RIGHT)
    record = await found.measure(1, full=MOST)
    page = night_page(record, found.results, ["nightly-2026-11-01 was late"])
    for words in (
        "# nightly-2026-11-02: worse", "Compared with: nightly-2026-11-01",
        "- **failed**: score no worse than the baseline by 0.05 (stdlib, pocket, cap, 8 at once)",
        "p < 0.001, n = 100, **worse**",
        "nightly-2026-11-01 was late.", "accepted: the first whole night",
    ):  # fmt: skip
        assert words in page, page
    told = night_dict(record, found.results, [])
    assert told["verdict"] == "worse" and told["baseline"] == "nightly-2026-11-01"
    assert [gate["status"] for gate in told["stages"][0]["gates"]] == ["failed", "passed"]
