"""What a set of domain tasks will take, measured on a sample before anything is kept.

In: a request. Out: candidates, databases and seconds, with what the gates drop. No model is called
by a program, so there are no tokens and no dollars.
"""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tutti.tasks.synthesis.domains import Toolkit
from tutti.tasks.synthesis.gating.gate import GateContext
from tutti.tasks.synthesis.making.instance import judge, proposed
from tutti.tasks.synthesis.making.request import DomainRequest

SAMPLE = 100
"""Candidates of the sample, of the request's first database."""


@dataclass(frozen=True)
class SynthesisPlan:
    """What a request will take."""

    sample: int
    """Candidates that were judged for it."""
    passed: int
    dropped: Mapping[str, int]
    """Of the sample, by gate."""
    candidates: float
    databases: float
    seconds: float
    """By one process, at the sample's speed."""

    @property
    def lines(self) -> list[str]:
        """For people."""
        drops = ", ".join(f"{gate} {n}" for gate, n in self.dropped.items()) or "none"
        return [
            f"sample: {self.passed} of {self.sample} candidates passed the gates; dropped: {drops}",
            f"about {self.candidates:,.0f} candidates over {self.databases:,.0f} databases, "
            f"{self.seconds:,.0f} s by one process",
            "calls of models: 0, tokens: 0, USD: 0 (a program makes them)",
        ]


async def plan_domain_set(request: DomainRequest, benchmarks: Sequence[str] = ()) -> SynthesisPlan:
    """Judge a sample, and reckon from it. Raises ToolkitFailed."""
    domain, candidates = await asyncio.to_thread(proposed, request, 0)
    sample = list(itertools.islice(candidates, SAMPLE))
    async with Toolkit(domain) as toolkit:
        context = GateContext(domain, toolkit, request.program.solve, benchmarks)
        began = time.monotonic()
        judged = await judge(sample, context)
        each_s = (time.monotonic() - began) / max(1, len(sample))
    passed = sum(one.reason is None for one in judged)
    wanted = request.size * len(sample) / max(1, passed)
    return SynthesisPlan(
        sample=len(sample),
        passed=passed,
        dropped=Counter(one.gates[-1] for one in judged if one.reason is not None),
        candidates=wanted,
        databases=request.databases,
        seconds=wanted * each_s,
    )
