"""Measure a night stage by stage, as far as its budget and its engines go.

In: a night, and a function that measures one suite. Out: a `StageResult` for every stage of the
file, also for those that were not reached. An engine that fails is a reason, not an error: what it
did not serve is inconclusive.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tutti.storage import Catalog
from tutti.tasks.agents import ToolUnavailable
from tutti.tasks.benchmarks import SourceMissing
from tutti.tasks.nights.record import Record
from tutti.tasks.nights.spec import Night, NightFile
from tutti.tasks.nights.verdict import MeasuredStage, StageResult, judge_stage
from tutti.tasks.retrieval import RetrievalError
from tutti.tasks.serving import PriceError, RegistryError, ServingError
from tutti.tasks.sweeps.run import BudgetTracker
from tutti.tasks.sweeps.spec import Suite

Measure = Callable[[Suite], Awaitable[str]]
"""Measures what is missing of a suite; gives the sweep's id."""
NOT_SERVED = (ServingError, ToolUnavailable, RetrievalError, SourceMissing)
FILE_IS_WRONG = (RegistryError, PriceError)  # of ServingError, but for somebody to mend
MOST_WORDS = 300  # of an engine's error, which may end with its log


@dataclass(frozen=True)
class NightContext:
    """A night to measure: by which file, against which night, within which budget."""

    file: NightFile
    night: Night
    last: Record | None
    """The night that margins refer to; None where no earlier one was accepted."""
    catalog: Catalog
    spending: BudgetTracker
    """Of the run's nights together."""


async def measure_stages(context: NightContext, measure: Measure) -> list[StageResult]:
    """Measure and judge the stages of a night in order.

    Raises RegistryError and SuiteError where a file is wrong, StoreError.
    """
    results: list[StageResult] = []
    for stage in context.file.stages:
        over = _over(context.file, results)
        if over is None and (why := context.spending.spent()) is not None:
            over = StageResult(stage, "inconclusive", f"not measured: {why.text}", False)
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
    suite = context.night.suite(context.file, stage)
    try:
        sweep_id = await measure(suite)
    except NOT_SERVED as error:
        if isinstance(error, FILE_IS_WRONG):
            raise
        said = (str(error).strip().splitlines() or [""])[0]
        reason = f"not measured: {type(error).__name__}: {said}"[:MOST_WORDS]
        return StageResult(stage, "inconclusive", reason, False)
    gates, spent = context.file.stages[stage].asked, context.spending.spent()
    why = None if spent is None else spent.text
    measured = MeasuredStage(stage, gates, suite, sweep_id, why)
    return judge_stage(context.catalog, measured, context.last)
