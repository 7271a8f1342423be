"""First answers to many questions as one batch of the provider (OpenAI's form).

In: questions, an endpoint that has ``/v1/files`` and ``/v1/batches``. Out: answers in the store,
where `Teacher.ask` reads them. Rows without an answer are repeated as single calls. Needs the
package `openai` (``pip install 'tutti[teacher]'``).
"""

import asyncio
import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tutti.errors import UsageError
from tutti.tasks.synthesis.teacher.asking import BatchCall, Question, Teacher
from tutti.tasks.synthesis.teacher.faults import Fault, FaultKind
from tutti.tasks.synthesis.teacher.reading import TeacherAnswer, answer_of

if TYPE_CHECKING:
    from openai import AsyncOpenAI

KEY = "tutti_batch"
ENDED = frozenset(("completed", "failed", "expired", "cancelled"))
LATE = "waited too long"
LISTED = 100
"""Batches of the account that are searched for one without a known id."""


@dataclass(frozen=True)
class Polling:
    """Interval and limit of waiting for a batch."""

    every_s: float = 20.0
    most_s: float = 86_400.0
    """OpenAI's completion window; after it rows go on as single calls."""


async def prefetch(
    teacher: Teacher, questions: Sequence[Question[Any]], polling: Polling = Polling()
) -> None:
    """Store the first answers to `questions`, as far as a batch gives them. Raises BudgetSpent
    before anything is sent if the budget does not allow all of them."""
    names, bodies = dict[str, str](), dict[str, dict[str, Any]]()
    for question in questions:
        key, body = teacher.first_request(question)
        names[key] = question.name
        if teacher.store.answer(key) is None:
            bodies[key] = body
    # Of all requests, so that a later process finds the batch whatever was stored by then.
    batch_key = hashlib.sha256(json.dumps(sorted(names)).encode()).hexdigest()
    known = teacher.store.batch(batch_key)
    if bodies and (known is None or known[1] not in {*ENDED, LATE}):
        await _Batch(teacher, batch_key, bodies, names, polling).run()


@dataclass(frozen=True)
class _Batch:
    teacher: Teacher
    key: str
    bodies: Mapping[str, Mapping[str, Any]]
    """By key, the requests that have no answer yet."""
    names: Mapping[str, str]
    polling: Polling

    async def run(self) -> None:
        try:
            from openai import AsyncOpenAI, OpenAIError
        except ImportError:
            raise UsageError(
                "a batch needs the package openai: pip install 'tutti[teacher]'"
            ) from None
        held, endpoint = self._reserve(), self.teacher.endpoint
        at, key = endpoint.batches.base_url, endpoint.batches.api_key
        try:
            # The package's own retries are off: they leave no record.
            async with AsyncOpenAI(
                api_key=key, base_url=at, timeout=endpoint.call_s, max_retries=0
            ) as api:
                batch_id = await self._find(api) or await self._submit(api)
                batch = await self._wait(api, batch_id)
                files = filter(None, (batch.output_file_id, batch.error_file_id))
                texts = [(await api.files.content(each)).text for each in files]
        except OpenAIError as error:
            self._release(held.values())
            detail = f"{type(error).__name__}: {error}"
            self._note(self.key[:16], FaultKind.BATCH_UNAVAILABLE, detail)
            return
        state = batch.status if batch.status in ENDED else LATE
        lines = [json.loads(line) for text in texts for line in text.splitlines() if line.strip()]
        self._take(lines, held, batch, state)
        self.teacher.store.keep_batch(self.key, batch_id, state)

    def _reserve(self) -> dict[str, float]:
        held: dict[str, float] = {}
        try:
            for key, body in self.bodies.items():
                size = len(json.dumps(body).encode())
                held[key] = self.teacher.meter.reserve(size, body["max_tokens"])
        except BaseException:
            self._release(held.values())
            raise
        return held

    def _release(self, held: Iterable[float]) -> None:
        for worst in held:
            self.teacher.meter.fail(worst, may_be_charged=False)

    async def _find(self, api: "AsyncOpenAI") -> str:
        """The id of the batch that a process submitted before it was killed; empty for none."""
        known = self.teacher.store.batch(self.key)
        if known is None or known[0]:
            return "" if known is None else known[0]
        listed = await api.batches.list(limit=LISTED)
        found = (each.id for each in listed.data if (each.metadata or {}).get(KEY) == self.key)
        return next(found, "")

    async def _submit(self, api: "AsyncOpenAI") -> str:
        url = "/v1/chat/completions"
        lines = "".join(
            json.dumps({"custom_id": key, "method": "POST", "url": url, "body": body}) + "\n"
            for key, body in self.bodies.items()
        )
        self.teacher.store.keep_batch(self.key, "", "submitting")
        file = await api.files.create(file=("teacher.jsonl", lines.encode()), purpose="batch")
        batch = await api.batches.create(
            completion_window="24h",
            endpoint="/v1/chat/completions",
            input_file_id=file.id,
            metadata={KEY: self.key},
        )
        self.teacher.store.keep_batch(self.key, batch.id, batch.status)
        return batch.id

    async def _wait(self, api: "AsyncOpenAI", batch_id: str) -> Any:
        until = time.monotonic() + self.polling.most_s
        while True:
            batch = await api.batches.retrieve(batch_id)
            if batch.status in ENDED:
                return batch
            if time.monotonic() >= until:  # cancelled, as its rows are now asked one by one
                return await api.batches.cancel(batch_id)
            await asyncio.sleep(self.polling.every_s)

    def _take(
        self, lines: Sequence[Any], held: Mapping[str, float], batch: Any, state: str
    ) -> None:
        """Report the answered rows, then store their answers, and record the rows without one."""
        given = {line.get("custom_id"): _answer(line) for line in lines}
        answers = {key: answer for key, answer in given.items() if answer and key in held}
        times = batch.created_at or None, batch.completed_at or batch.expired_at or None
        calls = [
            BatchCall(f"{batch.id}-{key[:16]}", self.bodies[key], answer, times)
            for key, answer in answers.items()
        ]
        teacher = self.teacher
        if teacher.on_batch is not None and calls:
            teacher.on_batch(calls)
        for key, answer in answers.items():
            teacher.store.keep_answer(key, self.names[key], self.bodies[key], answer.as_row())
            teacher.meter.settle(held[key], answer.tokens, None)
        kind, why = FaultKind.BATCH_ROW_FAILED, "no answer to this row"
        if state != "completed":
            kind, why = FaultKind.BATCH_EXPIRED, f"the batch is {state}"
        for key in (each for each in held if each not in answers):
            self._release([held[key]])
            self._note(self.names[key], kind, why)

    def _note(self, question: str, kind: FaultKind, detail: str) -> None:
        self.teacher.store.note_fault(question, Fault(kind, detail), "goes on as single calls")


def _answer(line: Mapping[str, Any]) -> TeacherAnswer | None:
    """Return the answer in a line of a batch's output; None for a row that failed."""
    response = line.get("response") or {}
    if response.get("status_code") != 200:
        return None
    try:
        return answer_of(response["body"], None)
    except (LookupError, TypeError, AttributeError):
        return None
