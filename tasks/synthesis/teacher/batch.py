"""Pays for the first answers of many questions as one batch of the provider (OpenAI's form).

In: questions, an endpoint that has ``/v1/files`` and ``/v1/batches``. Out: answers in the store,
where `Teacher.ask` finds them; rows that failed or expired are not there, so they go on as single
calls. The gateway forwards neither path, as files belong to the provider's account: the client
has the provider's own address for them, and `Teacher.on_batch` is told what the gateway would have
recorded.

A batch's id is stored as soon as it is known. A process that was killed while it submitted finds
its batch by the key in the batch's metadata.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tutti.tasks.synthesis.teacher.asking import BatchCall, Question, Teacher
from tutti.tasks.synthesis.teacher.client import TeacherClient
from tutti.tasks.synthesis.teacher.faults import Fault, FaultKind
from tutti.tasks.synthesis.teacher.reading import TeacherAnswer, answer_of

KEY = "tutti_batch"
ENDED = frozenset(("completed", "failed", "expired", "cancelled"))
LATE = "waited too long"
LISTED = 100
"""Batches of the account that are searched for one without a known id."""


@dataclass(frozen=True)
class Polling:
    """How long a batch is waited for."""

    every_s: float = 20.0
    most_s: float = 86_400.0
    """OpenAI's completion window; after it rows go on as single calls."""


async def prefetch(
    teacher: Teacher, questions: Sequence[Question[Any]], polling: Polling = Polling()
) -> None:
    """Get the first answers of `questions` into the store, as far as a batch gives them.

    Raises BudgetSpent before anything is sent where the budget does not allow all of them.
    """
    requests = dict(teacher.first_request(each) for each in questions)
    names = {teacher.first_request(each)[0]: each.name for each in questions}
    open_rows = {key: body for key, body in requests.items() if teacher.store.answer(key) is None}
    client = teacher.sender
    if not open_rows or not isinstance(client, TeacherClient):
        return
    key = hashlib.sha256(json.dumps(sorted(requests)).encode()).hexdigest()
    known = teacher.store.batch(key)
    if known is None or known[1] not in {*ENDED, LATE}:
        await _Batch(teacher, client, _Rows(key, open_rows, names), polling).run()


@dataclass(frozen=True)
class _Rows:
    """The requests of a batch that have no answer yet."""

    batch_key: str
    """Of all its requests, so that a later process finds it whatever was stored by then."""
    bodies: Mapping[str, Mapping[str, Any]]
    names: Mapping[str, str]


class _Batch:
    """One batch from its submission to its rows."""

    def __init__(
        self, teacher: Teacher, client: TeacherClient, rows: _Rows, polling: Polling
    ) -> None:
        self._teacher, self._client, self._polling = teacher, client, polling
        self._rows, self._names, self._key = rows.bodies, rows.names, rows.batch_key

    async def run(self) -> None:
        """Submit or find it, wait for it, and store its answers."""
        from openai import OpenAIError

        held = self._reserve()
        try:
            batch_id = await self._find() or await self._submit()
            batch = await self._wait(batch_id)
            lines = await self._lines(batch.output_file_id) + await self._lines(batch.error_file_id)
        except OpenAIError as error:
            for worst in held.values():
                self._teacher.meter.fail(worst, may_be_charged=False)
            detail = f"{type(error).__name__}: {error}"
            self._note(self._key[:16], FaultKind.BATCH_UNAVAILABLE, detail)
            return
        state = batch.status if batch.status in ENDED else LATE
        self._record(lines, batch)
        self._take(lines, held, state)
        self._teacher.store.keep_batch(self._key, batch_id, state)

    def _reserve(self) -> dict[str, float]:
        meter, field = self._teacher.meter, self._teacher.endpoint.max_tokens_field
        held: dict[str, float] = {}
        try:
            for key, body in self._rows.items():
                held[key] = meter.reserve(len(json.dumps(body).encode()), int(body[field]))
        except BaseException:
            for worst in held.values():
                meter.fail(worst, may_be_charged=False)
            raise
        return held

    async def _find(self) -> str:
        known = self._teacher.store.batch(self._key)
        if known is None:
            return ""
        if known[0]:
            return known[0]
        listed = await self._client.batches.batches.list(limit=LISTED)
        found = [each.id for each in listed.data if (each.metadata or {}).get(KEY) == self._key]
        return found[0] if found else ""

    async def _submit(self) -> str:
        lines = [
            json.dumps(
                {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
            )
            for key, body in self._rows.items()
        ]
        self._teacher.store.keep_batch(self._key, "", "submitting")
        api = self._client.batches
        content = ("\n".join(lines) + "\n").encode()
        file = await api.files.create(file=("teacher.jsonl", content), purpose="batch")
        batch = await api.batches.create(
            completion_window="24h",
            endpoint="/v1/chat/completions",
            input_file_id=file.id,
            metadata={KEY: self._key},
        )
        self._teacher.store.keep_batch(self._key, batch.id, batch.status)
        return batch.id

    async def _wait(self, batch_id: str) -> Any:
        until = time.monotonic() + self._polling.most_s
        while True:
            batch = await self._client.batches.batches.retrieve(batch_id)
            if batch.status in ENDED:
                return batch
            if time.monotonic() >= until:  # cancelled, as its rows are now asked one by one
                return await self._client.batches.batches.cancel(batch_id)
            await asyncio.sleep(self._polling.every_s)

    async def _lines(self, file_id: str | None) -> list[dict[str, Any]]:
        if not file_id:
            return []
        content = await self._client.batches.files.content(file_id)
        return [json.loads(line) for line in content.text.splitlines() if line.strip()]

    def _record(self, lines: Sequence[Any], batch: Any) -> None:
        """Tell of the answered rows, before their answers are used."""
        answers = {line.get("custom_id"): _answer(line) for line in lines}
        times = batch.created_at or None, batch.completed_at or batch.expired_at or None
        calls = [
            BatchCall(f"{batch.id}-{key[:16]}", self._rows[key], answer, times)
            for key, answer in answers.items()
            if answer is not None and key in self._rows
        ]
        if self._teacher.on_batch is not None and calls:
            self._teacher.on_batch(calls)

    def _take(self, lines: Sequence[Any], held: dict[str, float], state: str) -> None:
        """Store the answers, in whatever order they come; note the rows without one."""
        for line in lines:
            key = line.get("custom_id")
            if key in held and self._answered(key, line, held[key]):
                del held[key]
        for key, worst in held.items():
            self._teacher.meter.fail(worst, may_be_charged=False)
            if state != "completed":
                self._note(self._names[key], FaultKind.BATCH_EXPIRED, f"the batch is {state}")
            else:
                self._note(self._names[key], FaultKind.BATCH_ROW_FAILED, "no answer to this row")

    def _answered(self, key: str, line: Mapping[str, Any], worst: float) -> bool:
        answer = _answer(line)
        if answer is None:
            return False
        name, body = self._names[key], dict(self._rows[key])
        self._teacher.store.keep_answer(key, name, body, answer.as_row())
        self._teacher.meter.settle(worst, answer.tokens, None)
        return True

    def _note(self, question: str, kind: FaultKind, detail: str) -> None:
        fault = Fault(kind, detail)
        self._teacher.store.note_fault(question, fault, "goes on as single calls")


def _answer(line: Mapping[str, Any]) -> TeacherAnswer | None:
    """The answer in a line of a batch's output; None for a row that failed."""
    response = line.get("response") or {}
    if response.get("status_code") != 200:
        return None
    try:
        return answer_of(response["body"], None)
    except (LookupError, TypeError, AttributeError):
        return None
