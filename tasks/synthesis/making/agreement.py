"""The gate agreement: of a measured set, the tasks whose independent solutions agree with the
golden one.

In: a task set, and at least k stored attempts at each of its tasks. Out: a new task set, as
`KeptSource` makes it. Two attempts have the same solution if they left the same database and said
the same: all facts that the task wants, or else the same words with a digit that the user did not
say, or where there are none the same words. The end state of a right attempt is the golden one; of
any other its calls are carried out again (`end_state`).

Many attempts with one solution that is not the golden one say that the golden one is doubtful.
Attempts without a common solution say that the task is not clear, or too hard for these models.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tutti.storage import Catalog, Home, query
from tutti.tasks.synthesis.domains import (
    Domain,
    DomainTask,
    StoredCall,
    end_state,
    stored_calls,
)
from tutti.tasks.synthesis.gating.wording import communicates, words_of
from tutti.tasks.synthesis.making.domain_parts import KeptSource
from tutti.tasks.task_sets import Verdict

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
    """Which tasks of a measured set to keep."""

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
    """What an attempt came to, in a form that is equal for equal solutions."""

    db: str
    said: str

    @property
    def is_golden(self) -> bool:
        """Whether it is what the task states."""
        return (self.db, self.said) == (GOLDEN, GOLDEN)

    @property
    def text(self) -> str:
        """For people."""
        state = "" if self.db == GOLDEN else f"the state {self.db[:12]}"
        said = "" if self.said == GOLDEN else f"the answer {self.said[:SHOWN]!r}"
        return " and ".join(filter(None, (state, said))) or GOLDEN


def solution(task: DomainTask, db: str, said: Sequence[str]) -> Solution:
    """What an attempt came to that left the state `db` and sent the messages `said`."""
    state = GOLDEN if db == task.world.expected else db
    if not communicates("\n".join(said), task.world.communicate):
        return Solution(state, GOLDEN)
    words = words_of(said[-1]) if said else []
    told = set(words_of(task.world.scenario.text))
    figures = sorted({word for word in words if any(c.isdigit() for c in word)} - told)
    return Solution(state, " ".join(figures or words))


def agreed(solutions: Sequence[Solution], request: AgreementRequest) -> Verdict:
    """The gate's verdict on a task from its attempts' solutions. Where two are as frequent, the
    golden one counts."""
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


class AgreementSource(KeptSource):
    """The tasks whose solutions agree with the golden one. An attempt whose end state cannot be
    known does not count. Raises SandboxUnavailable from its parts."""

    gate = GATE

    def __init__(self, request: AgreementRequest, catalog: Catalog) -> None:
        """Raises UsageError where there is no such set of a domain."""
        super().__init__(request.task_set, request, catalog)
        self.request, self._home = request, catalog.home

    async def verdicts(self, work: Path) -> dict[str, Verdict]:
        """By the attempts on record, some of which are replayed."""
        given = {"ids": [task.task_id for _, task in self.tasks]}
        asked = given | {"models": list(self.request.models) or None}
        attempts = await asyncio.to_thread(query, ATTEMPTS_SQL, self._home, asked)
        record = await asyncio.to_thread(_Record, attempts, self._home)
        slots = asyncio.Semaphore(REPLAYS_AT_ONCE)
        found = await asyncio.gather(
            *(self._verdict(record, slots, domain, task) for domain, task in self.tasks)
        )
        ids = [task.task_id for _, task in self.tasks]
        return dict(zip(ids, found, strict=True))

    async def _verdict(
        self, record: "_Record", slots: asyncio.Semaphore, domain: Domain, task: DomainTask
    ) -> Verdict:
        found: list[Solution] = []
        unknown = ""
        for each in record.attempts.get(task.task_id, ()):
            async with slots:
                one = await record.solution_of(each, domain, task)
            if isinstance(one, Solution):
                found.append(one)
            else:
                unknown = unknown or one
        verdict = agreed(found, self.request)
        if len(found) < self.request.k and unknown:
            return Verdict(False, f"{verdict.reason}; an end state is not known: {unknown}")
        return verdict


class _Record:
    """What the store has of a set's attempts."""

    def __init__(self, attempts: Sequence[Mapping[str, Any]], home: Home) -> None:
        self.attempts: dict[str, list[Mapping[str, Any]]] = {}
        for each in attempts:
            self.attempts.setdefault(each["task_id"], []).append(each)
        wrong = [each["attempt_id"] for each in attempts if not each["correct"]]
        self._calls: Mapping[str, Sequence[StoredCall] | None] = {}
        self._said: dict[str, list[str]] = {}
        if wrong:
            self._calls = stored_calls(wrong, home)
            for row in query(SAID_SQL, home, {"ids": wrong}):
                self._said.setdefault(row["attempt_id"], []).append(row["content"])

    async def solution_of(
        self, attempt: Mapping[str, Any], domain: Domain, task: DomainTask
    ) -> Solution | str:
        """What an attempt came to, or why it is not known. A right one's is the golden one."""
        if attempt["correct"]:
            return Solution(GOLDEN, GOLDEN)
        end = await end_state(domain, task, self._calls[attempt["attempt_id"]])
        said = self._said.get(attempt["attempt_id"], ())
        return end.fault or solution(task, end.db, said)
