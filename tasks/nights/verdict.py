"""Measuring a night stage by stage, and its verdict: each stage by its gates, then all together.

A stage that is incomplete for any reason (the budget, an engine that failed) is inconclusive.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa

from tutti.storage import Catalog, connect
from tutti.storage import catalog as cat
from tutti.tasks.agents.tools import ToolUnavailable
from tutti.tasks.benchmarks import SourceMissing
from tutti.tasks.nights.record import Record, words_of
from tutti.tasks.nights.spec import Night, NightFile
from tutti.tasks.retrieval import RetrievalError
from tutti.tasks.scoring.statistics import Word
from tutti.tasks.serving import PriceError, RegistryError, ServingError
from tutti.tasks.sweeps.analysis import (
    Outcome,
    Side,
    check_gates,
    enter_verdicts,
)
from tutti.tasks.sweeps.run import BudgetTracker
from tutti.tasks.sweeps.spec import Suite

NO_BASELINE = "no earlier night was accepted"
COMPLETE = (cat.FINISHED, cat.ENDED_EARLY, cat.SUPERSEDED)
REMOVED = (cat.SUPERSEDED, cat.EXPIRED)
MOST_SHOWN = 3  # gates of a reason in words; the others are counted


@dataclass(frozen=True)
class StageResult:
    """The verdict on one stage."""

    stage: str
    status: Literal["passed", "failed", "inconclusive", "skipped"]
    """skipped: a stage before it failed, and ended the night."""
    reason: str
    whole: bool  # whether nothing of it is missing
    sweep_id: str | None = None
    against: str = ""  # the baseline of its margins, in words; empty without one
    outcomes: tuple[Outcome, ...] = ()
    is_first: bool = False  # whether no earlier night was accepted, as its baseline


def _judged(context: "NightContext", stage: str, suite: Suite, sweep_id: str) -> StageResult:
    """Judge a measured stage and store its gates' verdicts."""
    catalog, last = context.catalog, context.last
    gates, spent = context.file.stages[stage].judged_by, context.spending.spent()
    why = None if spent is None else spent.text
    if missing := unmeasured(catalog, sweep_id, suite, why):
        found = tuple(Outcome(gate, reason=missing) for gate in gates)
        return StageResult(stage, "inconclusive", missing, False, sweep_id, "", found)
    with connect(catalog.home, comments=False) as connection:
        side = Side.find(connection, sweep_id)
        assert side is not None, f"{sweep_id} was measured"
        name = suite.report.baseline or (last.sweeps.get(stage) if last else None)
        lacking = "" if name else NO_BASELINE
        if last is not None and name is None:
            lacking = f"{last.night.label}, the last accepted night, has no such stage"
        against = None if name is None else Side.find(connection, name)
        if name is not None and against is None:
            lacking = f"the baseline {name} is not in the store"
        outcomes = tuple(check_gates(connection, gates, side, against, lacking))
    enter_verdicts(catalog, side, outcomes)
    statuses = {each.status for each in outcomes}
    status: Literal["passed", "failed", "inconclusive"] = "passed"
    if "failed" in statuses:
        status = "failed"
    elif "inconclusive" in statuses:
        status = "inconclusive"
    reason = "all gates passed" if status == "passed" else _words(outcomes, status)
    named, compared = suite.report.baseline is not None, ""
    if against is not None and (named or last is None):
        compared = f"{against.name}, which the suite names"
    elif against is not None and last is not None:
        compared = f"{last.night.label}, accepted: {last.accepted}"
    first = not named and last is None
    return StageResult(stage, status, reason, True, sweep_id, compared, outcomes, first)


def unmeasured(catalog: Catalog, sweep_id: str, suite: Suite, why: str | None = None) -> str:
    """Return the missing part of a stage as text; empty if every sample of it was tried."""
    of_sweep = cat.cells.c.sweep_id == sweep_id
    entered = catalog.rows(
        sa.select(cat.cells.c.cell_id).where(of_sweep, cat.cells.c.status.not_in(REMOVED))
    )
    of_a_level = len(suite.policies) * suite.repetition.repeats + suite.repetition.repeat_baseline
    planned = len(suite.parts()) * len(suite.concurrency) * of_a_level
    if len(entered) < planned:
        missing = f"{planned - len(entered)} of {planned} cells are not measured"
        return f"{missing}: {why}" if why else missing
    states, samples = cat.attempt_states.c, cat.samples.c
    tried = sa.exists().where(
        states.sample_id == samples.sample_id, states.state == "done", states.status != "cancelled"
    )
    left = catalog.rows(
        sa.select(cat.cells.c.reason)
        .join(cat.samples, cat.cells.c.cell_id == samples.cell_id)
        .where(of_sweep, cat.cells.c.status.not_in(COMPLETE), ~tried)
    )
    if not left:
        return ""
    reasons = dict.fromkeys(row["reason"] for row in left if row["reason"])
    return ": ".join([f"{len(left)} samples are not measured", *(reasons or filter(None, [why]))])


def judge_night(night: Night, results: Sequence[StageResult], last: Record | None) -> Record:
    """Return the verdict of all stages together.

    A failed gate makes it worse. Only a complete night is better or the same, and accepted; the
    first complete one whose bounds passed is accepted without a baseline.
    """
    whole = all(result.whole for result in results)
    outcomes = [each for result in results for each in result.outcomes]
    open_ = [each for each in outcomes if each.status != "passed"]
    accepted = None
    word: Word = "inconclusive"
    if failed := [result for result in results if result.status == "failed"]:
        word, reason = "worse", "; ".join(f"{each.stage}: {each.reason}" for each in failed)
    elif not whole:
        missing = next(result for result in results if not result.whole)
        reason = f"{missing.stage}: {missing.reason}"
    elif not open_:
        better = any(each.verdict == "better" and each.cells_a for each in outcomes)
        compared = sum(bool(each.cells_a) for each in outcomes)
        word = "better" if better else "same"
        reason = f"all {len(outcomes)} gates passed, {compared} of them against the baseline"
        accepted = "all gates passed"
    elif all(_has_nothing_before(result) for result in results):
        bounds = len(outcomes) - len(open_)
        reason = f"{NO_BASELINE} to compare it with; {bounds} of {bounds} bounds passed"
        accepted = "the first whole night; nothing speaks against it"
    else:
        undecided = [result for result in results if result.status == "inconclusive"]
        reason = "; ".join(f"{each.stage}: {each.reason}" for each in undecided)
    sweeps = {each.stage: each.sweep_id for each in results if each.sweep_id is not None}
    label = None if last is None else last.night.label
    return Record(night, word, reason, accepted, whole, label, sweeps)


def _has_nothing_before(result: StageResult) -> bool:
    """Whether all undecided gates are margins of a first night."""
    open_ = [each for each in result.outcomes if each.status != "passed"]
    return not open_ or (result.is_first and all(each.lacks_baseline for each in open_))


def _words(outcomes: Sequence[Outcome], status: str) -> str:
    """Return the gates of a status, each with its figures, its set-up, and its reason."""
    meant, parts = [each for each in outcomes if each.status == status], []
    for each in meant[:MOST_SHOWN]:
        where = f" ({each.where})" if each.where else ""
        start = f"{each.words}{where}; {each.gate}" if each.words else f"{each.gate}{where}"
        parts.append(f"{start}: {each.reason}")
    more = [f"and {len(meant) - MOST_SHOWN} more"] if len(meant) > MOST_SHOWN else []
    return "; ".join(parts + more)


Measure = Callable[[Suite], Awaitable[str]]  # measures the missing part of a suite; gives its sweep
NOT_SERVED = (ServingError, ToolUnavailable, RetrievalError, SourceMissing)
FILE_IS_WRONG = (RegistryError, PriceError)  # ServingErrors that somebody must fix in a file
MOST_WORDS = 300  # of an engine's error, which may end with its log


@dataclass(frozen=True)
class NightContext:
    """A night to measure, with its file, its reference night, and its budget."""

    file: NightFile
    night: Night
    last: Record | None  # the night that margins refer to; None where no earlier one was accepted
    catalog: Catalog
    spending: BudgetTracker  # of the run's nights together


async def measure_stages(context: NightContext, measure: Measure) -> list[StageResult]:
    """Measure and judge the stages of a night. Raises RegistryError, SuiteError, StoreError."""
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
    """Return the result of the stages that are not reached after `results`; None if they are."""
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
        reason = f"not measured: {words_of(error)}"[:MOST_WORDS]
        return StageResult(stage, "inconclusive", reason, False)
    return _judged(context, stage, suite, sweep_id)
