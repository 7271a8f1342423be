"""Asks a teacher for a value of a pydantic model and pays for no answer twice.

In: a question. Out: a value that fits the model and passes the question's check, or TeacherFailed.
An answer is looked up by the content of its request (model, prompt, schema, sampling) and written
before it is used. A wrong answer is sent back with the error, at most once for each kind of fault.
Where an endpoint does not support a form of answer, the next one is used, remembered and recorded.

A call that is in flight when the process is killed may be paid and asked again: its answer came
nowhere. All others are paid once.
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
from tutti.tasks.synthesis.teacher.client import CallFailed, Sender, TeacherEndpoint
from tutti.tasks.synthesis.teacher.faults import BudgetSpent, Fault, FaultKind, TeacherFailed
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


async def passes(value: Any) -> str:
    """The check of a question that needs none."""
    return ""


@dataclass(frozen=True)
class Question(Generic[T]):
    """One thing asked of the teacher."""

    name: str
    """Unique in a run; letters, digits, ``_`` and ``-``."""
    prompt: str
    answer: type[T]
    check: Callable[[T], Awaitable[str]] = passes
    """Why a value that fits the model is still wrong; empty if it is right."""
    max_tokens: int = 4096
    schema: Mapping[str, Any] | None = None
    """Asked for in place of the model's own, where its parts are validated one by one."""

    resend: str = "Give the whole answer again, corrected."
    """What is asked for after a fault."""

    @property
    def asked_schema(self) -> Mapping[str, Any]:
        """The schema that the answer must fit."""
        return strict_schema(self.answer) if self.schema is None else self.schema


@dataclass(frozen=True)
class TeacherSampling:
    """How answers are drawn."""

    temperature: float = 0.7
    seed: int = 0


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What came of a question: a value or an error."""

    value: T | None = None
    failed: TeacherFailed | None = None
    stopped: BudgetSpent | None = None


@dataclass(frozen=True)
class Conversation:
    """What is sent: the prompt, and after a fault the answer and its error."""

    messages: tuple[Message, ...]
    max_tokens: int
    seed: int

    resend: str

    def after(self, fault: Fault, answer: TeacherAnswer) -> "Conversation":
        """The next try after a fault."""
        if fault.kind == FaultKind.HALF_JSON:  # the same again with more room
            return replace(self, max_tokens=min(2 * self.max_tokens, MOST_TOKENS))
        if fault.kind == FaultKind.REFUSAL:  # the same again, drawn anew
            return replace(self, seed=self.seed + LATER_SEED)
        told = f"This answer cannot be used. {fault.detail}\n{self.resend}".strip()
        said: tuple[Message, ...] = ({"role": "assistant", "content": answer.text},)
        return replace(self, messages=(*self.messages, *said, {"role": "user", "content": told}))


@dataclass(frozen=True)
class BatchCall:
    """A row of a batch that was answered: what the gateway records of other calls."""

    call_id: str
    """The same whenever the batch is read."""
    body: Mapping[str, Any]
    answer: TeacherAnswer
    times: tuple[float | None, float | None]
    """When its batch began and ended, in seconds of the Unix epoch; None: the provider does not
    say."""


@dataclass
class Teacher:
    """Asks one model; calls of the same content are made once."""

    sender: Sender
    endpoint: TeacherEndpoint
    store: TeacherStore
    meter: Meter
    sampling: TeacherSampling = TeacherSampling()
    concurrency: int = 8
    on_batch: Callable[[Sequence[BatchCall]], None] | None = None
    """Told of a batch's calls before their answers are used; it may be told of one again."""
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with the form of answer that the endpoint was found to support."""
        self._slots = asyncio.Semaphore(self.concurrency)
        self._place = f"{self.endpoint.base_url} {self.endpoint.model}"
        known = self.store.mode(self._place)
        self.mode = Mode.SCHEMA if known is None else Mode(known)

    async def ask(self, question: Question[T]) -> T:
        """A value that fits and passes its check. Raises TeacherFailed, BudgetSpent."""
        conversation, mode = self._start(question), self.mode
        tried: Counter[FaultKind] = Counter()
        while True:
            key, answer, mode = await self._answer(question, conversation, mode)
            found = read_value(answer, question.answer)
            if not isinstance(found, Fault):
                why = await question.check(found)
                if not why:
                    return found
                found = Fault(FaultKind.CHECK, why)
            tried[found.kind] += 1
            lower = mode.next_one if found.kind == FaultKind.BAD_JSON else None
            if tried[found.kind] == 1:
                remedy, conversation = "sent back", conversation.after(found, answer)
            elif lower is not None:  # it takes the form and does not heed it
                remedy, mode, conversation = f"asked as {lower}", lower, self._start(question)
            else:
                remedy = "gave up"
            self.store.note_fault(question.name, found, remedy, f"{key} {found.kind}")
            if remedy == "gave up":
                raise TeacherFailed.by(question.name, found)

    async def ask_all(self, questions: Sequence[Question[T]]) -> list[Outcome[T]]:
        """The outcome of each question, in their order. Those that the budget does not allow are
        not asked; what is in flight then is finished."""

        async def outcome(question: Question[T]) -> Outcome[T]:
            try:
                return Outcome(await self.ask(question))
            except TeacherFailed as error:
                return Outcome(failed=error)
            except BudgetSpent as error:
                return Outcome(stopped=error)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(outcome(each)) for each in questions]
        return [each.result() for each in tasks]

    def first_request(self, question: Question[T]) -> tuple[str, dict[str, Any]]:
        """The key and the body of a question's first request, for a batch."""
        body = self._body(question, self._start(question), self.mode)
        return request_key(body), body

    def _start(self, question: Question[T]) -> Conversation:
        message = {"role": "user", "content": question.prompt}
        return Conversation((message,), question.max_tokens, self.sampling.seed, question.resend)

    def _body(
        self, question: Question[T], conversation: Conversation, mode: Mode
    ) -> dict[str, Any]:
        body = {
            "model": self.endpoint.model,
            "temperature": self.sampling.temperature,
            "seed": conversation.seed,
            self.endpoint.max_tokens_field: conversation.max_tokens,
            **request_fields(mode, question.name, question.asked_schema, conversation.messages),
            **self.endpoint.request,
        }
        return {name: value for name, value in body.items() if value is not None}

    async def _answer(
        self, question: Question[T], conversation: Conversation, mode: Mode
    ) -> tuple[str, TeacherAnswer, Mode]:
        """The answer in a form that the endpoint supports, with its key and that form."""
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
                answer = await self._pay(body, question)
                self.store.keep_answer(key, question, body, answer.as_row())
                return answer

    async def _pay(self, body: Mapping[str, Any], question: str) -> TeacherAnswer:
        worst = self.meter.reserve(
            len(json.dumps(body).encode()),
            int(body.get(self.endpoint.max_tokens_field, MOST_TOKENS)),
        )
        try:
            answer = await self.sender.send(body, question)
        except CallFailed as error:
            self.meter.fail(worst, may_be_charged=error.fault.kind == FaultKind.TIMEOUT)
            raise
        except BaseException:
            self.meter.fail(worst, may_be_charged=True)
            raise
        self.meter.settle(worst, answer.tokens, answer.usd)
        return answer


def request_key(body: Mapping[str, Any]) -> str:
    """The key of a request: SHA-256 of its canonical JSON (model, prompt, schema, sampling)."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _form_unknown(error: CallFailed) -> bool:
    """Whether the endpoint refused the form of the answer, not the prompt."""
    detail = error.fault.detail
    is_form = error.status in FORM_STATUS and FORM.search(detail) is not None
    return is_form and TOO_LONG.search(detail) is None
