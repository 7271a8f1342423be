"""One instance of a domain: its database, its candidates, and what the gates say of them.

In: a request and the instance's number. Out: a folder with the domain, the tasks that passed and a
row a verdict. An instance depends on nothing but these, so that several processes make the same as
one.
"""

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from tutti.tasks.synthesis.domains import Domain, DomainTask, Toolkit
from tutti.tasks.synthesis.gating import GATES, TOGETHER
from tutti.tasks.synthesis.gating.gate import GateContext
from tutti.tasks.synthesis.making.domain_parts import write_domain_part
from tutti.tasks.synthesis.making.request import DomainRequest
from tutti.tasks.task_sets import Judged, is_judged, run_gates

BATCH = 260
"""Candidates shown to a gate at once: an instance's 250 tasks, and some to be dropped."""
PART = 65
"""Candidates that go from gate to gate beside other parts: enough that a request to the sandbox is
worth its way, and few enough that there are several."""
MOST_CANDIDATES = 6
"""Candidates a wanted task, before an instance is given up as exhausted."""


async def make_instance(
    request: DomainRequest, number: int, folder: Path, benchmarks: Sequence[str] = ()
) -> None:
    """Make an instance in `folder`, whole or not at all, unless it is there.

    Raises ToolkitFailed where the domain's code fails.
    """
    if is_judged(folder):
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
    passed = itertools.accumulate(each.reason is None for each in judged)
    needed = sum(1 for count in passed if count < wanted) + 1  # to the last that is wanted
    write_domain_part(folder, domain, judged[:needed])


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


def _batches(candidates: Iterator[DomainTask]) -> Iterator[list[DomainTask]]:
    while batch := list(itertools.islice(candidates, BATCH)):
        yield batch
