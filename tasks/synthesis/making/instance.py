"""One instance of a domain: its database, its candidates, and what the gates say of them.

In: a request and the instance's number. Out: a folder with the domain, the tasks that passed and a
row a verdict. An instance depends on nothing but these, so that several processes make the same as
one.
"""

import asyncio
import itertools
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tutti.tasks.synthesis.domains import (
    Domain,
    DomainTask,
    Toolkit,
    write_domain_folder,
)
from tutti.tasks.synthesis.gating import GATES, TOGETHER
from tutti.tasks.synthesis.gating.gate import GateContext
from tutti.tasks.synthesis.making.request import DomainRequest
from tutti.tasks.task_sets import Judged, run_gates

BATCH = 260
"""Candidates shown to a gate at once: an instance's 250 tasks, and some to be dropped."""
PART = 65
"""Candidates that go from gate to gate beside other parts: enough that a request to the sandbox is
worth its way, and few enough that there are several."""
MOST_CANDIDATES = 6
"""Candidates a wanted task, before an instance is given up as exhausted."""
JUDGED = "judged.parquet"
ROW = pa.schema(
    [
        ("task", pa.string()),
        ("task_id", pa.string()),
        ("accepted", pa.bool_()),
        ("gates", pa.list_(pa.string())),
        ("measured", pa.list_(pa.float64())),
        ("reason", pa.string()),
    ]
)
"""A candidate: the gates that it was shown to, in order; the last one rejected it unless it is
accepted."""


async def make_instance(
    request: DomainRequest, number: int, folder: Path, benchmarks: Sequence[str] = ()
) -> None:
    """Make an instance in `folder`, whole or not at all, unless it is there.

    Raises ToolkitFailed where the domain's code fails.
    """
    if (folder / JUDGED).is_file():
        return
    domain, candidates = proposed(request, number)
    judged: list[Judged[DomainTask]] = []
    async with Toolkit(domain) as toolkit:
        context = GateContext(domain, toolkit, request.program.solve, benchmarks)
        wanted = request.wanted(number)
        for batch in _batches(itertools.islice(candidates, MOST_CANDIDATES * wanted)):
            judged += await judge(batch, context)
            if sum(each.reason is None for each in judged) >= wanted:
                break
    accepted = [each.task for each in judged if each.reason is None][:wanted]
    write_instance(folder, domain, accepted, judged)


def proposed(request: DomainRequest, number: int) -> tuple[Domain, Iterator[DomainTask]]:
    """The domain of an instance, and its candidates."""
    program, knobs = request.program, request.every_knob
    rng = Random(f"{request.seed}/{program.name}/{number}")
    domain = program.build(rng, knobs)
    lineage = {"generator": program.name, "version": program.version, "seed": request.seed}
    lineage |= {"instance": number, "knobs": knobs}
    domain = domain.model_copy(update={"lineage": domain.lineage | lineage})
    return domain, program.propose(domain, rng, knobs)


async def judge(tasks: Sequence[DomainTask], context: GateContext) -> list[Judged[DomainTask]]:
    """Show candidates to every gate in order; one that rejects a task is its last. Raises
    ToolkitFailed.

    Gates that look at tasks one by one are shown parts of them, and while the sandbox works on one
    part, this process works on another. The verdicts are the same.
    """
    judged = [Judged(task) for task in tasks]
    gates = list(GATES.values())
    alone = min(place for place, gate in enumerate(gates) if gate.name in TOGETHER)
    try:
        async with asyncio.TaskGroup() as group:
            for first in range(0, len(judged), PART):
                part = judged[first : first + PART]
                group.create_task(run_gates(part, gates[:alone], context))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    await run_gates(judged, gates[alone:], context)
    for each in judged:
        replay = context.forget(each.task)
        if each.reason is None and replay is not None:
            each.task = each.task.model_copy(update={"expected": replay.after})
    return judged


def read_judged(folder: Path, accepted: int) -> Iterator[dict[str, Any]]:
    """The rows of an instance by the columns of `ROW`, with `task` as a dictionary, to the last of
    so many accepted tasks; all if there are none."""
    left = accepted
    for row in pq.read_table(folder / JUDGED).to_pylist():
        yield row | {"task": json.loads(row["task"])}
        left -= row["accepted"]
        if left == 0 and accepted:
            return


def write_instance(
    folder: Path,
    domain: Domain,
    accepted: Sequence[DomainTask],
    judged: Sequence[Judged[DomainTask]],
) -> None:
    """Write an instance's folder, whole or not at all."""
    temporary = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    write_domain_folder(temporary, domain, accepted)
    rows = [each.as_row() | {"task": each.task.model_dump_json()} for each in judged]
    pq.write_table(pa.Table.from_pylist(rows, ROW), temporary / JUDGED)
    temporary.rename(folder)


def _batches(candidates: Iterator[DomainTask]) -> Iterator[list[DomainTask]]:
    while batch := list(itertools.islice(candidates, BATCH)):
        yield batch
