"""Measure a night stage by stage, as far as its budget and its engines go.

In: a night, and a function that measures one suite. Out: a `StageResult` for every stage of the
file, also for those that were not reached. An engine that fails is a reason, not an error: what it
did not serve is inconclusive.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tutti.storage import Catalog, query
from tutti.tasks.agents import ToolUnavailable
from tutti.tasks.benchmarks import SourceMissing
from tutti.tasks.nights.record import Record
from tutti.tasks.nights.spec import Night, NightFile
from tutti.tasks.nights.verdict import MeasuredStage, StageResult, judge_stage
from tutti.tasks.retrieval import RetrievalError
from tutti.tasks.serving import PriceError, RegistryError, ServingError
from tutti.tasks.sweeps.run import Spending
from tutti.tasks.sweeps.spec import Budget, Suite

Measure = Callable[[Suite], Awaitable[str]]
"""Measures what is missing of a suite; gives the sweep's id."""
NOT_SERVED = (ServingError, ToolUnavailable, RetrievalError, SourceMissing)
FILE_IS_WRONG = (RegistryError, PriceError)  # of ServingError, but for somebody to mend
SPENT_USD = "select coalesce(sum(cost_usd), 0) as usd from attempts where run_id = $run_id"
LEAST = 1e-9  # a budget is above 0; the stage then ends before its first sample
MOST_WORDS = 300  # of an engine's error, which may end with its log


class NightBudget:
    """What a run's nights may take together."""

    def __init__(self, budget: Budget, catalog: Catalog, run_id: str) -> None:
        self._spending, self._began = Spending(budget), time.monotonic()
        self._catalog, self._run_id = catalog, run_id

    def spent(self) -> str | None:
        """The reason, once it is spent."""
        (row,) = query(SPENT_USD, self._catalog.home, {"run_id": self._run_id})
        self._spending.usd = float(row["usd"])
        reason = self._spending.spent()
        return None if reason is None else reason.text

    def limit(self, suite: Suite) -> Suite:
        """The suite with what is left, where its own budget is not smaller."""
        whole, own = self._spending.budget, suite.budget
        minutes = _left(whole.minutes, (time.monotonic() - self._began) / 60, own.minutes)
        left = Budget(minutes=minutes, usd=_left(whole.usd, self._spending.usd, own.usd))
        return suite.model_copy(update={"budget": left})


@dataclass(frozen=True)
class NightContext:
    """A night to measure: by which file, against which night, with what budget."""

    file: NightFile
    night: Night
    last: Record | None
    """The night that margins refer to; None where no earlier one was accepted."""
    catalog: Catalog
    budget: NightBudget


async def measure_stages(context: NightContext, measure: Measure) -> list[StageResult]:
    """Measure and judge the stages of a night in order.

    Raises RegistryError and SuiteError where a file is wrong, StoreError.
    """
    results: list[StageResult] = []
    for stage in context.file.stages:
        over = _over(context.file, results)
        if over is None and (why := context.budget.spent()) is not None:
            over = StageResult(stage, "inconclusive", f"not measured: {why}", False)
        if over is None:
            result = await _measured(context, stage, measure)
        else:
            result = StageResult(stage, over.status, over.reason, over.whole)
        results.append(result)
    return results


def _over(file: NightFile, results: list[StageResult]) -> StageResult | None:
    """What becomes of the stages after those so far, if they are not reached."""
    if not results:
        return None
    last = results[-1]
    if last.status == "skipped" or (last.status == "inconclusive" and last.sweep_id is None):
        return last  # as of the stage before
    if last.status == "failed" and file.stops(last.stage):
        return StageResult("", "skipped", f"not measured: {last.stage} failed", True)
    return None


async def _measured(context: NightContext, stage: str, measure: Measure) -> StageResult:
    suite = context.budget.limit(context.night.suite(context.file, stage))
    try:
        sweep_id = await measure(suite)
    except NOT_SERVED as error:
        if isinstance(error, FILE_IS_WRONG):
            raise
        said = (str(error).strip().splitlines() or [""])[0]
        reason = f"not measured: {type(error).__name__}: {said}"[:MOST_WORDS]
        return StageResult(stage, "inconclusive", reason, False)
    gates, spent = context.file.stages[stage].asked, context.budget.spent()
    measured = MeasuredStage(stage, gates, suite, sweep_id, spent)
    return judge_stage(context.catalog, measured, context.last)


def _left(whole: float | None, taken: float, own: float | None) -> float | None:
    """What is left of the night's, or the stage's own where that is less."""
    if whole is None:
        return own
    left = max(LEAST, whole - taken)
    return left if own is None else min(left, own)
