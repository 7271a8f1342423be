"""Seeded defects in each domain through all gates, and good tasks that a gate drops."""

import asyncio
import itertools
from dataclasses import dataclass
from random import Random

from bench.synthesis.defects import DefectReport, count_caught, seed_defects
from bench.synthesis.task_defects import BENCHMARK_TEXTS
from tutti.tasks.synthesis import DomainRequest
from tutti.tasks.synthesis.domains import Toolkit
from tutti.tasks.synthesis.gating import GATES
from tutti.tasks.synthesis.gating.gate import GateBench
from tutti.tasks.synthesis.making.instance import judge, proposed

PER_GATE = 20


@dataclass(frozen=True)
class PlantedResult:
    """Of one domain."""

    report: DefectReport
    good_dropped: int
    """Of `report.good` good tasks, those that a gate dropped beside the defects."""

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
    """`good` tasks of a domain that every gate passed, and `PER_GATE` defects in them a gate."""
    return asyncio.run(_plant(DomainRequest(domain=domain, size=good), seed))


async def _plant(request: DomainRequest, seed: int) -> PlantedResult:
    domain, candidates = proposed(request, 0)
    drawn = list(itertools.islice(candidates, request.size))
    async with Toolkit(domain) as toolkit:
        solver = request.program.solve
        judged = await judge(drawn, GateBench(domain, toolkit, solver, BENCHMARK_TEXTS))
        # What they lead to is not stated, as with candidates: the gates have only themselves.
        passed = [each.task for each in judged if each.reason is None]
        tasks = [task.model_copy(update={"expected": ""}) for task in passed]
        dropped = len(judged) - len(tasks)
        defects = seed_defects(Random(seed), domain, tasks, PER_GATE)
        bench = GateBench(domain, toolkit, solver, BENCHMARK_TEXTS)
        report = await count_caught(defects, tasks, bench, GATES)
    return PlantedResult(report, dropped)
