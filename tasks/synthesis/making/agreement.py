"""The agreement gate: it selects the tasks of a measured set whose independent solutions agree with
the golden one.

In: a task set, and at least k stored attempts at each of its tasks. Out: a new task set, as
`KeptSource` makes it. Two attempts have the same solution if they left the same database and
communicated the same: all facts of the task, or else the same words with a digit that the user did
not mention, or without such words the same words. The end state of a right attempt is the golden
one; the calls of other attempts are run again (`end_state`).

If many attempts share a solution that is not the golden one, the golden one is doubtful. If
attempts have no common solution, the task is unclear, or too hard for these models.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from tutti.storage import query
from tutti.tasks.synthesis.domains import Domain, DomainTask, end_state, stored_calls
from tutti.tasks.synthesis.gating.wording import communicates, words_of
from tutti.tasks.synthesis.making.domain_parts import KeptSource
from tutti.tasks.task_sets import Row, Verdict

GATE = "agreement"
REPLAYS_AT_ONCE = 4
"""Interpreters side by side."""
GOLDEN = "the golden one"
ATTEMPTS_SQL = """
select task_id, attempt_id, correct from counted
where task_id in (select unnest($ids)) and ($models is null or model in (select unnest($models)))
order by task_id, attempt_id
"""
SAID_SQL = """
select attempt_id, content from messages where attempt_id in (select unnest($ids))
    and role = 'assistant' and content <> '' order by attempt_id, position
"""
SHOWN = 60


class AgreementRequest(BaseModel):
    """The parameters of the gate agreement."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Literal["agreement"] = Field(
        "agreement", description="measured tasks that are solved alike"
    )
    task_set: str = Field(description="the set, by its id")
    least: float = Field(
        0.6, gt=0.0, le=1.0, description="least share of attempts with the same solution"
    )
    k: int = Field(4, ge=2, le=256, description="least number of independent attempts")
    models: tuple[str, ...] = Field((), description="whose attempts count; empty: everybody's")


@dataclass(frozen=True)
class Solution:
    """The result of an attempt, in a form that is equal for equal solutions."""

    db: str
    said: str

    @property
    def is_golden(self) -> bool:
        """Whether it is the solution that the task states."""
        return (self.db, self.said) == (GOLDEN, GOLDEN)

    @property
    def text(self) -> str:
        """The solution as text, for people."""
        state = "" if self.db == GOLDEN else f"the state {self.db[:12]}"
        said = "" if self.said == GOLDEN else f"the answer {self.said[:SHOWN]!r}"
        return " and ".join(filter(None, (state, said))) or GOLDEN


def solution(task: DomainTask, db: str, said: Sequence[str]) -> Solution:
    """Return the solution of an attempt that left the state `db` and sent the messages `said`."""
    state = GOLDEN if db == task.world.expected else db
    if not communicates("\n".join(said), task.world.communicate):
        return Solution(state, GOLDEN)
    words = words_of(said[-1]) if said else []
    told = set(words_of(task.world.scenario.text))
    figures = sorted({word for word in words if any(c.isdigit() for c in word)} - told)
    return Solution(state, " ".join(figures or words))


def agreed(solutions: Sequence[Solution], request: AgreementRequest) -> Verdict:
    """Return the gate's verdict on a task from its attempts' solutions. In a tie, the golden one
    wins."""
    n = len(solutions)
    if n < request.k:
        return Verdict(False, f"{n} attempts on record; agreement needs {request.k}")
    counted = Counter(solutions)
    usual = max(counted, key=lambda each: (counted[each], each.is_golden))
    most, share = counted[usual], counted[usual] / n
    if share < request.least:
        what = f"no agreement: {len(counted)} solutions by {n} attempts, the most frequent {most}"
        return Verdict(False, f"{what} times, {usual.text}", share)
    if not usual.is_golden:
        what = f"the golden answer is doubtful: {most} of {n} attempts agree on {usual.text}"
        return Verdict(False, what, share)
    return Verdict(True, measured=share)


class AgreementSource(KeptSource[AgreementRequest]):
    """The tasks whose solutions agree with the golden one. An attempt whose end state is unknown
    does not count. `parts` raises SandboxUnavailable."""

    gate = GATE

    async def verdicts(self, work: Path) -> dict[str, Verdict]:
        """Compute them from the attempts on record; calls of wrong ones are carried out again."""
        ids = [task.task_id for _, task in self.tasks]
        given = {"ids": ids, "models": list(self.request.models) or None}
        attempts = defaultdict(list)
        for row in await asyncio.to_thread(query, ATTEMPTS_SQL, self.home, given):
            attempts[row["task_id"]].append(row)
        wrong = [r["attempt_id"] for rows in attempts.values() for r in rows if not r["correct"]]
        calls = await asyncio.to_thread(stored_calls, wrong, self.home)
        said = defaultdict(list)
        for row in query(SAID_SQL, self.home, {"ids": wrong}) if wrong else ():
            said[row["attempt_id"]].append(row["content"])
        slots = asyncio.Semaphore(REPLAYS_AT_ONCE)

        async def solution_of(attempt: Row, domain: Domain, task: DomainTask) -> Solution | str:
            if attempt["correct"]:
                return Solution(GOLDEN, GOLDEN)
            async with slots:
                end = await end_state(domain, task, calls[attempt["attempt_id"]])
            return end.fault or solution(task, end.db, said[attempt["attempt_id"]])

        async def verdict_on(domain: Domain, task: DomainTask) -> Verdict:
            found = [await solution_of(each, domain, task) for each in attempts[task.task_id]]
            solutions = [each for each in found if isinstance(each, Solution)]
            fault = next((each for each in found if isinstance(each, str)), "")
            verdict = agreed(solutions, self.request)
            if len(solutions) < self.request.k and fault:
                return Verdict(False, f"{verdict.reason}; an end state is not known: {fault}")
            return verdict

        found = await asyncio.gather(*(verdict_on(domain, task) for domain, task in self.tasks))
        return dict(zip(ids, found, strict=True))
