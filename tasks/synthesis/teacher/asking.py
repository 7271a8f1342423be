"""Requests to a teacher for a value of a pydantic model, without paying for any answer twice.

In: a question. Out: a value that fits the model and passes the question's check, or TeacherFailed.
A wrong answer is sent back with the error, at most once for each kind of fault. Only a call in
flight when the process is killed may be paid twice.
"""

import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from tutti.tasks.synthesis.teacher.budget import Meter
from tutti.tasks.synthesis.teacher.client import CallFailed, TeacherClient
from tutti.tasks.synthesis.teacher.faults import Fault, FaultKind, TeacherFailed
from tutti.tasks.synthesis.teacher.reading import (
    Message,
    Mode,
    TeacherAnswer,
    read_value,
    request_fields,
    strict_schema,
)
from tutti.tasks.synthesis.teacher.store import TeacherStore

T = TypeVar("T", bound=BaseModel)
FORM_STATUS = frozenset((400, 415, 422, 501))
FORM = re.compile(r"response_format|json_schema|structured|guided|grammar|schema|tool", re.I)
TOO_LONG = re.compile(r"context|too long|max_tokens", re.I)
MOST_TOKENS = 32_768
"""Half a JSON is asked again with twice the tokens up to this."""
LATER_SEED = 1_000_003
"""Added to the seed after a refusal, so that the same prompt is another request."""


@dataclass(frozen=True)
class Question(Generic[T]):
    """A question to the teacher."""

    name: str
    """Unique in a run; letters, digits, ``_`` and ``-``."""
    prompt: str
    answer: type[T]
    check: Callable[[T], str | Awaitable[str]] = lambda value: ""
    """Why a value that fits the model is still wrong; empty if it is right."""
    max_tokens: int = 4096
    schema: Mapping[str, Any] | None = None
    """Asked for in place of the model's own, where its parts are validated one by one."""
    resend: str = "Give the whole answer again, corrected."
    """What is asked for after a fault."""


@dataclass(frozen=True)
class TeacherSampling:
    """Sampling settings of the answers."""

    temperature: float = 0.7
    seed: int = 0


@dataclass(frozen=True)
class Conversation:
    """The messages to send: the prompt, and after a fault the answer and its error."""

    messages: tuple[Message, ...]
    max_tokens: int
    seed: int
    resend: str

    def after(self, fault: Fault, answer: TeacherAnswer) -> "Conversation":
        """Return the conversation for the next try after a fault."""
        if fault.kind == FaultKind.HALF_JSON:  # the same again with more room
            return replace(self, max_tokens=min(2 * self.max_tokens, MOST_TOKENS))
        if fault.kind == FaultKind.REFUSAL:  # the same again, drawn anew
            return replace(self, seed=self.seed + LATER_SEED)
        text = f"This answer cannot be used. {fault.detail}\n{self.resend}".strip()
        turn = {"role": "assistant", "content": answer.text}, {"role": "user", "content": text}
        return replace(self, messages=(*self.messages, *turn))


@dataclass(frozen=True)
class BatchCall:
    """An answered row of a batch, with the fields that the gateway records of other calls."""

    call_id: str
    """The same whenever the batch is read."""
    body: Mapping[str, Any]
    answer: TeacherAnswer
    times: tuple[float | None, float | None]
    """When its batch began and ended, in seconds of the Unix epoch; None: unknown."""


@dataclass
class Teacher:
    """Client of one model; calls with the same content are sent once."""

    client: TeacherClient
    store: TeacherStore
    meter: Meter
    sampling: TeacherSampling = TeacherSampling()
    concurrency: int = 8
    on_batch: Callable[[Sequence[BatchCall]], None] | None = None
    """Gets a batch's calls before their answers are used; it may get one again."""
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Start with the form of answer that the endpoint is known to support."""
        self.endpoint, self._slots = self.client.endpoint, asyncio.Semaphore(self.concurrency)
        self._place = f"{self.endpoint.base_url} {self.endpoint.model}"
        known = self.store.mode(self._place)
        self.mode = Mode.SCHEMA if known is None else Mode(known)

    async def ask(self, question: Question[T]) -> T:
        """A value that fits the model and passes the check. Raises TeacherFailed, BudgetSpent."""
        conversation, mode = self._start(question), self.mode
        tried: Counter[FaultKind] = Counter()
        while True:
            key, answer, mode = await self._answer(question, conversation, mode)
            value = read_value(answer, question.answer)
            if not isinstance(value, Fault):
                why = question.check(value)
                why = why if isinstance(why, str) else await why
                if not why:
                    return value
                value = Fault(FaultKind.CHECK, why)
            tried[value.kind] += 1
            lower = mode.next_one if value.kind == FaultKind.BAD_JSON else None
            if tried[value.kind] == 1:
                remedy, conversation = "sent back", conversation.after(value, answer)
            elif lower is not None:  # it takes the form and does not heed it
                remedy, mode, conversation = f"asked as {lower}", lower, self._start(question)
            else:
                remedy = "gave up"
            self.store.note_fault(question.name, value, remedy, f"{key} {value.kind}")
            if remedy == "gave up":
                raise TeacherFailed.by(question.name, value)

    async def ask_all(self, questions: Sequence[Question[T]]) -> list[T | TeacherFailed]:
        """Return the value or the failure of each question, in order. Raises BudgetSpent if the
        budget does not allow all, after the calls in flight are finished."""
        found = await asyncio.gather(*map(self.ask, questions), return_exceptions=True)
        outcomes: list[T | TeacherFailed] = []
        for each in found:
            if isinstance(each, BaseException) and not isinstance(each, TeacherFailed):
                raise each
            outcomes.append(each)
        return outcomes

    def first_request(self, question: Question[T]) -> tuple[str, dict[str, Any]]:
        """Return the key and the body of a question's first request, for a batch."""
        body = self._body(question, self._start(question), self.mode)
        return request_key(body), body

    def _start(self, question: Question[T]) -> Conversation:
        message = {"role": "user", "content": question.prompt}
        return Conversation((message,), question.max_tokens, self.sampling.seed, question.resend)

    def _body(
        self, question: Question[T], conversation: Conversation, mode: Mode
    ) -> dict[str, Any]:
        schema = strict_schema(question.answer) if question.schema is None else question.schema
        return {
            "model": self.endpoint.model,
            "temperature": self.sampling.temperature,
            "seed": conversation.seed,
            "max_tokens": conversation.max_tokens,
            **request_fields(mode, question.name, schema, conversation.messages),
        }

    async def _answer(
        self, question: Question[T], conversation: Conversation, mode: Mode
    ) -> tuple[str, TeacherAnswer, Mode]:
        while True:
            body = self._body(question, conversation, mode)
            try:
                key = request_key(body)
                return key, await self._paid_once(key, body, question.name), mode
            except CallFailed as error:
                lower = mode.next_one if _form_unknown(error) else None
                if lower is None and error.is_permanent:
                    self.store.note_fault(question.name, error.fault, "gave up")
                if lower is None:
                    raise TeacherFailed.by(question.name, error.fault) from None
                fault = Fault(FaultKind.UNSUPPORTED, f"{mode}: {error.fault.detail}")
                self.store.note_fault(question.name, fault, f"asked as {lower}")
                if self.mode == mode:
                    self.mode = lower
                    self.store.keep_mode(self._place, lower, error.fault.detail)
                mode = lower

    async def _paid_once(self, key: str, body: Mapping[str, Any], question: str) -> TeacherAnswer:
        async with self._locks.setdefault(key, asyncio.Lock()):
            known = self.store.answer(key)
            if known is not None:
                return TeacherAnswer(**known)
            async with self._slots:
                worst = self.meter.reserve(len(json.dumps(body).encode()), body["max_tokens"])
                try:
                    answer = await self.client.send(body, question)
                except BaseException as error:
                    is_refused = isinstance(error, CallFailed) and error.status != 408
                    self.meter.fail(worst, may_be_charged=not is_refused)
                    raise
                self.meter.settle(worst, answer.tokens, answer.usd)
                self.store.keep_answer(key, question, body, answer.as_row())
                return answer


def request_key(body: Mapping[str, Any]) -> str:
    """The key of a request: SHA-256 of its canonical JSON (model, prompt, schema, sampling)."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _form_unknown(error: CallFailed) -> bool:
    """Whether the endpoint refused the form of the answer, not the prompt."""
    detail = error.fault.detail
    is_form = error.status in FORM_STATUS and FORM.search(detail) is not None
    return is_form and TOO_LONG.search(detail) is None
