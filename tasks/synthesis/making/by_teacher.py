"""A set of domain tasks by a teacher model: its chain's domain and tasks, through the same gates.

In: a request and a teacher that answers. Out: an artifact ``task_set:...`` as a program's. What the
teacher answered is kept in the request's work folder until the set is entered, so that a run that
was killed, or whose budget is spent, asks only for what is missing.
"""

import asyncio
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from tutti.storage import Catalog, content_hash, held
from tutti.tasks.sandbox import level_for_models
from tutti.tasks.synthesis.domains import Toolkit
from tutti.tasks.synthesis.gating import GATES
from tutti.tasks.synthesis.gating.gate import GateContext
from tutti.tasks.synthesis.generate import find_task_set
from tutti.tasks.synthesis.making.batch_rows import BatchRecorder
from tutti.tasks.synthesis.making.collected import Collected
from tutti.tasks.synthesis.making.instance import judge, write_instance
from tutti.tasks.synthesis.making.make import work_folder
from tutti.tasks.synthesis.making.request import PIPELINE_VERSION, NothingMade, SetUnfinished
from tutti.tasks.synthesis.teacher import (
    Chain,
    Meter,
    Teacher,
    TeacherBudget,
    TeacherClient,
    TeacherEndpoint,
    TeacherPrices,
    TeacherRequest,
    TeacherTasks,
    make_tasks,
    open_store,
)

BUDGET_FIELDS = frozenset({"usd", "calls", "concurrency"})
"""They decide what a run may spend, and not what is made."""
Note = Callable[[str], None]


class TeacherSetRequest(TeacherRequest):
    """A set by a teacher: what it is asked for, and what that may cost."""

    teacher: str = Field(description="a model of the registry")
    usd: float | None = Field(None, gt=0, description="most that one run may cost, USD")
    calls: int | None = Field(None, ge=1, description="most calls of one run")
    concurrency: int = Field(8, ge=1, le=256, description="calls at once")

    @property
    def as_asked(self) -> dict[str, Any]:
        """All that decides what is made."""
        return self.model_dump(exclude=set(BUDGET_FIELDS))

    @property
    def request_hash(self) -> str:
        """Of `as_asked`, and of what judges it."""
        return content_hash([PIPELINE_VERSION, list(GATES), self.as_asked])

    @property
    def chain(self) -> TeacherRequest:
        """What the teacher's chain is asked for."""
        return TeacherRequest(**{name: getattr(self, name) for name in TeacherRequest.model_fields})


@dataclass(frozen=True)
class TeacherSet:
    """What came of a request."""

    task_set_id: str
    spent: str
    """Calls, tokens, USD of this run; empty where nothing was asked."""


async def make_teacher_set(
    request: TeacherSetRequest,
    endpoint: TeacherEndpoint,
    prices: TeacherPrices | None,
    catalog: Catalog,
    benchmarks: Sequence[str] = (),
) -> TeacherSet:
    """Make the set, or find an existing one.

    `benchmarks`: questions that no task may repeat. Raises TeacherFailed, BudgetSpent (what was
    paid for is kept), SetUnfinished, NothingMade, ToolkitFailed, SandboxUnavailable, StoreError,
    UsageError.
    """
    known = find_task_set(catalog, request.request_hash)
    if known is not None:
        return TeacherSet(known, "")
    level_for_models()  # the teacher's code will run here; refused before a call is paid for
    work = work_folder(catalog, request.request_hash)
    with held(catalog, f"synthesizing {request.request_hash}"):
        program = f"{endpoint.program}-batch"
        recorder = BatchRecorder(catalog, request.teacher, program, prices)
        made, spent = await _asked(request, endpoint, recorder, work)
        if made.unfinished:
            row, reason = next(iter(made.unfinished.items()))
            raise SetUnfinished(
                f"{len(made.unfinished)} rows are not finished, as {row}: {reason}; what was paid "
                f"for is kept, and the same command goes on ({spent})"
            )
        collected = await _gated(made, work, benchmarks)
        if not collected.accepted:
            why = f"of {collected.candidates} tasks none passed the gates: {collected.drops()}"
            raise NothingMade(f"{made.domain.name}: {why}; rejects of the chain: {made.rejects}")
        named: dict[str, Any] = {"request": request.request_hash, "name": made.domain.name}
        named |= {"asked": request.as_asked, "compared_with": len(benchmarks)}
        named |= {"chain_rejects": [list(each) for each in made.rejects]}
        task_set_id = await asyncio.to_thread(collected.enter, named, catalog)
        shutil.rmtree(work)
    return TeacherSet(task_set_id, spent)


async def _asked(
    request: TeacherSetRequest,
    endpoint: TeacherEndpoint,
    recorder: BatchRecorder,
    work: Path,
) -> tuple[TeacherTasks, str]:
    meter = Meter(TeacherBudget(request.usd, request.calls), recorder.prices)
    with open_store(work / "teacher") as store:
        async with TeacherClient(endpoint, store) as client:
            teacher = Teacher(client, endpoint, store, meter, concurrency=request.concurrency)
            teacher.on_batch = recorder.record
            return await make_tasks(Chain(request.chain, teacher)), meter.text


async def _gated(made: TeacherTasks, work: Path, benchmarks: Sequence[str]) -> Collected:
    """The chain's tasks through the gates, as an instance of their own."""
    async with Toolkit(made.domain) as toolkit:
        judged = await judge(made.tasks, GateContext(made.domain, toolkit, None, benchmarks))
    accepted = [each.task for each in judged if each.reason is None]
    folder = work / "instance-0000"
    shutil.rmtree(folder, ignore_errors=True)
    write_instance(folder, made.domain, accepted, judged)
    shutil.rmtree(work / "set", ignore_errors=True)
    collected = Collected(len(accepted), work / "set")
    collected.take(folder, 0)
    return collected
