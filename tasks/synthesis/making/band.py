"""The pass@k gate: it selects the tasks of a measured set that are neither too hard nor too easy.

In: a task set, and attempts at its tasks in the store (`tutti run task_set:ID`). Out: a new set of
the tasks whose pass@k lies in a band; each of the others has its reason.
"""

import asyncio
from collections.abc import Sequence
from math import comb
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from tutti.storage import Home, query
from tutti.tasks.synthesis.making.domain_parts import KeptSource
from tutti.tasks.task_sets import Verdict

GATE = "pass_at_k"
MEASURED_SQL = """
select task_id, count(*) as n, count(*) filter (is_right) as solved from counted
where task_id in (select unnest($ids)) and ($models is null or model in (select unnest($models)))
group by all
"""


class BandRequest(BaseModel):
    """The parameters of the gate pass@k."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Literal["pass_rate"] = Field(
        "pass_rate", description="measured tasks with some pass rate"
    )
    task_set: str = Field(description="the set, by its id")
    low: float = Field(0.1, ge=0.0, le=1.0, description="least pass@k")
    high: float = Field(0.9, ge=0.0, le=1.0, description="largest pass@k")
    k: int = Field(1, ge=1, le=256, description="attempts, one of which must solve it")
    models: tuple[str, ...] = Field((), description="whose attempts count; empty: everybody's")


class Rate(NamedTuple):
    """The number of attempts at a task, and of those that solved it."""

    n: int
    solved: int


def pass_at_k(rate: Rate, k: int) -> float:
    """Probability that at least one of k attempts solves the task: 1 - C(n-c, k) / C(n, k),
    unbiased for n >= k (Chen et al. 2021, arXiv 2107.03374)."""
    return 1.0 - comb(rate.n - rate.solved, k) / comb(rate.n, k)


def judged(rate: Rate | None, request: BandRequest) -> Verdict:
    """Return the gate's verdict on a task."""
    rate = rate or Rate(0, 0)
    if rate.n < request.k:
        return Verdict(False, f"{rate.n} attempts on record; pass@{request.k} needs {request.k}")
    found = pass_at_k(rate, request.k)
    if request.low <= found <= request.high:
        return Verdict(True, measured=found)
    what = f"pass@{request.k} is {found:.2f} ({rate.solved} of {rate.n} attempts solved it)"
    return Verdict(False, f"{what}, not {request.low:g} to {request.high:g}", found)


class BandSource(KeptSource[BandRequest]):
    """The tasks whose pass@k lies in the band."""

    gate = GATE

    async def verdicts(self, work: Path) -> dict[str, Verdict]:
        """Compute them from the attempts on record."""
        ids = [task.task_id for _, task in self.tasks]
        rates = await asyncio.to_thread(measured_rates, ids, self.request.models, self.home)
        return {each: judged(rates.get(each), self.request) for each in ids}


def measured_rates(ids: Sequence[str], models: Sequence[str], home: Home) -> dict[str, Rate]:
    """Return the stored attempts by task id; those of all models if none is named."""
    given = {"ids": list(ids), "models": list(models) or None}
    rows = query(MEASURED_SQL, home, given)
    return {row["task_id"]: Rate(row["n"], row["solved"]) for row in rows}
