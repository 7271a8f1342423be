"""Seeded defects in each domain through all gates, and good tasks that a gate drops."""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from bench.synthesis.defects import DefectReport, count_caught, seed_defects
from bench.synthesis.task_defects import BENCHMARK_TEXTS
from tutti.tasks.synthesis import DomainRequest
from tutti.tasks.synthesis.domains import DomainTask, Toolkit, changed_task
from tutti.tasks.synthesis.gating import GATES
from tutti.tasks.synthesis.gating.gate import GateContext
from tutti.tasks.synthesis.gating.seen import Seen
from tutti.tasks.synthesis.making.by_program import judge, proposed
from tutti.tasks.task_sets import Judged

PER_GATE = 20


@dataclass(frozen=True)
class PlantedResult:
    """Of one domain."""

    report: DefectReport
    good: int
    """Tasks without a defect that the gates were shown."""
    false_drops: list[str]
    """``gate: reason`` of those of them that were dropped."""

    @property
    def planted(self) -> int:
        """Defects that found a place."""
        return sum(each.planted for each in self.report.counts.values())

    @property
    def caught(self) -> int:
        """By the gate that should."""
        return sum(each.caught for each in self.report.counts.values())

    @property
    def missed(self) -> list[str]:
        """By every gate."""
        return [name for each in self.report.counts.values() for name in each.missed]

    @property
    def by_another(self) -> list[str]:
        """Caught, by a gate that was not meant to."""
        return [name for each in self.report.counts.values() for name in each.by_another]


def plant(domain: str, good: int, seed: int = 0) -> PlantedResult:
    """`good` tasks of a domain through the gates, and `PER_GATE` defects for each gate in those of
    its first database that passed."""
    return asyncio.run(_plant(DomainRequest(domain=domain, size=good), seed))


async def _plant(request: DomainRequest, seed: int) -> PlantedResult:
    reports: list[DefectReport] = []
    shown, drops = 0, []
    for number in range(request.databases):
        domain, candidates = proposed(request, number)
        drawn = list(itertools.islice(candidates, request.wanted(number)))
        async with Toolkit(domain) as toolkit:
            context = GateContext(domain, toolkit, request.program.solve, BENCHMARK_TEXTS)
            judged = await judge(drawn, context)
            shown += len(judged)
            drops += [f"{each.gates[-1]}: {each.reason}" for each in judged if each.reason]
            if not reports:
                context = replace(context, seen=Seen(), facts={})
                reports.append(await _with_defects(context, judged, seed))
    return PlantedResult(reports[0], shown, drops + reports[0].false_drops)


async def _with_defects(
    context: GateContext, judged: Sequence[Judged[DomainTask]], seed: int
) -> DefectReport:
    # What they lead to is not stated, as with candidates: the gates have only themselves.
    passed = [each.task for each in judged if each.reason is None]
    tasks = [changed_task(task, expected="") for task in passed]
    defects = seed_defects(Random(seed), context.domain, tasks, PER_GATE)
    return await count_caught(defects, tasks, context, GATES)
