"""A source of domain tasks by a teacher's chain; its tasks pass the same gates as a program's.

The teacher's answers stay in the work folder until the set is entered, so that a run that was
killed, or whose budget is spent, asks only for the missing ones. Calls in a provider's batches are
recorded as the gateway records the others, at the registry's prices without a discount for batches.
"""

import hashlib
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from tutti.storage import Catalog, commit, content_hash, now, query, spans_of
from tutti.tasks.sandbox import level_for_models
from tutti.tasks.synthesis.domains import Toolkit
from tutti.tasks.synthesis.gating import GATES
from tutti.tasks.synthesis.gating.gate import GateContext
from tutti.tasks.synthesis.making.by_program import PIPELINE_VERSION, SetUnfinished, judge
from tutti.tasks.synthesis.making.domain_parts import DomainParts, write_domain_part
from tutti.tasks.synthesis.making.teachers import TeacherPool, open_teachers
from tutti.tasks.synthesis.teacher import (
    BatchCall,
    Chain,
    TeacherPrices,
    TeacherRequest,
    make_tasks,
)
from tutti.tasks.task_sets import SetInMaking

ENDPOINT = "batch"
PARAMETERS = ("temperature", "max_tokens", "max_completion_tokens", "seed")
KNOWN_SQL = "select call_id from calls where call_id in (select unnest($ids))"
LAST_SQL = "select max(position) as last from messages where attempt_id = $program"


@dataclass(frozen=True)
class BatchRecorder:
    """Writes the calls of one request's batches."""

    catalog: Catalog
    model: str
    """Name in the registry."""
    program: str
    prices: TeacherPrices | None
    role: str = "teacher"

    def record(self, calls: Sequence[BatchCall]) -> None:
        """Write the calls that are not stored yet. Raises StoreError."""
        home = self.catalog.home
        ids = {"ids": [each.call_id for each in calls]}
        known = {row["call_id"] for row in query(KNOWN_SQL, home, ids)}
        last = query(LAST_SQL, home, {"program": self.program})[0]["last"]
        place = 0 if last is None else last + 1
        rows: dict[str, list[dict[str, Any]]] = {"calls": [], "messages": []}
        for call in calls:
            if call.call_id in known:
                continue
            prompt = call.body["messages"]
            rows["calls"].append(self._call(call, range(place, place + len(prompt))))
            answer = {"role": "assistant", "content": call.answer.text, "call_id": call.call_id}
            for message in (*prompt, answer):
                at = {"attempt_id": self.program, "position": place}
                rows["messages"].append(at | message)
                place += 1
        if rows["calls"]:
            commit(self.catalog, rows)

    def _call(self, call: BatchCall, prompt: range) -> dict[str, Any]:
        """Return the row of a call; `prompt`: the positions of its messages."""
        answer = call.answer
        sent_at, ended_at = (_at(each) for each in call.times)
        cost = None
        if self.prices is not None and answer.tokens is not None:
            cost = self.prices.usd(answer.tokens.prompt, answer.tokens.completion)
        params = {name: call.body[name] for name in PARAMETERS if name in call.body}
        messages = json.dumps(call.body["messages"]).encode()
        return {
            "call_id": call.call_id,
            "attempt_id": self.program,
            "role": self.role,
            "model": self.model,
            "endpoint": ENDPOINT,
            "sent_at": sent_at,
            "ended_at": ended_at,
            "latency_s": max(0.0, (ended_at - sent_at).total_seconds()),
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.completion_tokens,
            "finish_reason": answer.finish,
            "status": "ok",
            "http_status": 200,
            "retry": 0,
            "cost_usd": cost,
            "params": json.dumps({**params, "model": call.body["model"]}),
            "prompt_hash": hashlib.sha256(messages).hexdigest()[:16],
            "prompt_spans": spans_of(prompt),
        }


def _at(seconds: float | None) -> datetime:
    """Return a provider's time as datetime; the present if there is none."""
    return now() if seconds is None else datetime.fromtimestamp(seconds, UTC)


class TeacherSetRequest(TeacherRequest):
    """The parameters of a set by a teacher, with its budget."""

    source: Literal["teacher"] = Field("teacher", description="a domain by a model")
    teacher: str = Field(description="a model of the registry")

    @property
    def request_hash(self) -> str:
        """Hash of `as_asked` and of the gates."""
        return content_hash([PIPELINE_VERSION, list(GATES), self.as_asked])


class TeacherDomainSource(DomainParts):
    """The tasks of a teacher's chain.

    `parts` may raise TeacherFailed, BudgetSpent (paid answers stay stored), SetUnfinished,
    ToolkitFailed, SandboxUnavailable.
    """

    is_paid = True

    def __init__(
        self,
        request: TeacherSetRequest,
        teachers: TeacherPool,
        catalog: Catalog,
        benchmarks: Sequence[str] = (),
    ) -> None:
        """`benchmarks`: questions that no task may repeat."""
        self.request, self.teachers, self.benchmarks = request, teachers, benchmarks
        self.request_hash = self.work_name = request.request_hash
        (endpoint,), (prices,) = teachers.endpoints, teachers.prices
        program = f"{endpoint.program}-batch"
        self._recorder = BatchRecorder(catalog, request.teacher, program, prices)
        self._rejects: Sequence[Any] = ()

    async def parts(self, work: Path, made: SetInMaking) -> AsyncGenerator[Path, None]:
        """Yield one part: the chain's domain."""
        level_for_models()  # the teacher's code will run here; refused before a call is paid for
        async with open_teachers(self.teachers, work / "teacher") as ((teacher,), meter):
            teacher.on_batch = self._recorder.record
            chain = await make_tasks(Chain(self.request, teacher))
            self.spent = meter.text
        self.name, self._rejects = chain.domain.name, chain.rejects
        if chain.unfinished:
            row, reason = next(iter(chain.unfinished.items()))
            raise SetUnfinished(
                f"{len(chain.unfinished)} rows are not finished, as {row}: {reason}; what was paid "
                f"for is kept, and the same command goes on ({self.spent})"
            )
        async with Toolkit(chain.domain) as toolkit:
            context = GateContext(chain.domain, toolkit, None, self.benchmarks)
            judged = await judge(chain.tasks, context)
        yield write_domain_part(work / "instance-0000", chain.domain, judged)

    def detail(self, made: SetInMaking) -> dict[str, Any]:
        """Return the request and the rejects of the chain."""
        return {
            "name": self.name,
            "asked": self.request.as_asked,
            "compared_with": len(self.benchmarks),
            "chain_rejects": [list(each) for each in self._rejects],
        }

    def too_few(self, made: SetInMaking) -> str:
        """Return the gates that dropped candidates, and the rejects of the chain."""
        return f"{super().too_few(made)}; rejects of the chain: {self._rejects}"
