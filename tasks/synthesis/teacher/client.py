"""Sends a teacher's requests through the `openai` package, and retries what is transient.

In: a base URL (the gateway's, so that calls are recorded and priced), a request. Out: an answer, or
`CallFailed` with a named fault. Retries are bounded in number and time, each is a row of the store
with its cause, and the pause that a 429 asks for holds back all calls of this client, not just
one. The package's own retries are off: they leave no record. Needs the package `openai`
(``pip install 'tutti[teacher]'``).
"""

import asyncio
import os
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from types import TracebackType
from typing import Any, Protocol

from tutti.errors import UsageError
from tutti.tasks.agents import Retry
from tutti.tasks.serving import Model
from tutti.tasks.serving.wire import asked_pause_s
from tutti.tasks.synthesis.teacher.faults import Fault, FaultKind
from tutti.tasks.synthesis.teacher.reading import TeacherAnswer, answer_of
from tutti.tasks.synthesis.teacher.store import TeacherStore

ROLE = "teacher"
TIMEOUT, CONNECTION = 408, 0
"""Statuses of calls that got none: too late, or no connection."""
RETRY = Retry(
    {CONNECTION: 3, TIMEOUT: 2, 429: 8, 500: 3, 502: 3, 503: 4, 504: 2, 529: 4},
    first_s=1.0,
    most_s=30.0,
    deadline_s=900.0,
)
QUOTA = "insufficient_quota"
"""OpenAI's code of a 429 that no waiting ends."""
COST = "x-tutti-cost-usd"
SHOWN = 300


@dataclass(frozen=True)
class ProviderAddress:
    """Where a provider has its batches; the gateway does not forward them."""

    base_url: str
    api_key: str = field(repr=False)


def provider_address(model: Model) -> ProviderAddress:
    """Of a model of the registry. Raises UsageError for one without an address of its own or with a
    key that is no bearer token, and where the key's variable is not set."""
    if model.endpoint is None or model.key_header.lower() not in ("", "authorization"):
        raise UsageError("batch: only for a model of a provider with OpenAI's API and bearer keys")
    key = "none"
    if model.api_key_env is not None:
        key = os.environ.get(model.api_key_env, "").strip()
        if not key:
            raise UsageError(f"batch: {model.api_key_env} is not set")
    url = model.endpoint.rstrip("/").removesuffix(model.api_path)  # with or without it
    return ProviderAddress(f"{url}{model.api_path}", key)


@dataclass(frozen=True)
class TeacherEndpoint:
    """Where a teacher answers."""

    base_url: str
    """With ``/v1``."""
    model: str
    """The model's name at the endpoint."""
    program: str = "teacher"
    """The gateway's program, which groups calls."""
    role: str = ROLE
    """Of its calls in the gateway's records."""
    api_key: str = field(default="none", repr=False)
    call_s: float = 300.0
    """Time limit of one call."""
    max_tokens_field: str = "max_tokens"
    request: Mapping[str, Any] = field(default_factory=dict)
    """More fields of each request: a model's `fields` in the registry. None removes a field."""
    retry: Retry = RETRY
    batch: ProviderAddress | None = None
    """Where its batches are; None: at `base_url`."""


class CallFailed(Exception):
    """A request got no answer."""

    def __init__(
        self, fault: Fault, status: int, pause_s: float | None = None, is_permanent: bool = False
    ) -> None:
        super().__init__(fault.detail)
        self.fault, self.status, self.pause_s = fault, status, pause_s
        self.is_permanent = is_permanent


class Sender(Protocol):
    """What sends requests; tests may give another one."""

    async def send(self, body: Mapping[str, Any], question: str) -> TeacherAnswer:
        """The answer to a chat completion request. Raises CallFailed."""
        ...


class TeacherClient:
    """Connections to one endpoint; an async context manager."""

    def __init__(self, endpoint: TeacherEndpoint, store: TeacherStore) -> None:
        """Raises UsageError if the package `openai` is not installed."""
        try:
            from openai import AsyncOpenAI
        except ImportError:
            raise UsageError(
                "a teacher needs the package openai: pip install 'tutti[teacher]'"
            ) from None
        headers = {"X-Tutti-Role": endpoint.role, "X-Program-Id": endpoint.program}
        self.endpoint = endpoint
        self.openai: AsyncOpenAI = AsyncOpenAI(
            api_key=endpoint.api_key,
            base_url=endpoint.base_url,
            timeout=endpoint.call_s,
            max_retries=0,
            default_headers=headers,
        )
        self.batches = self.openai
        if endpoint.batch is not None:
            self.batches = AsyncOpenAI(
                api_key=endpoint.batch.api_key,
                base_url=endpoint.batch.base_url,
                timeout=endpoint.call_s,
                max_retries=0,
            )
        self._store = store
        self._not_before = 0.0

    async def __aenter__(self) -> "TeacherClient":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await self.openai.close()
        await self.batches.close()

    async def send(self, body: Mapping[str, Any], question: str) -> TeacherAnswer:
        """The answer to a chat completion request, retried if useful. Raises CallFailed."""
        failed: Counter[int] = Counter()
        started, draw = time.monotonic(), Random(question)
        while True:
            await self._wait_out()
            try:
                return await self._try(body)
            except CallFailed as error:
                if error.is_permanent:  # the teacher decides what becomes of it
                    raise
                failed[error.status] += 1
                pause_s = self._pause_s(error, failed[error.status], started, draw)
                remedy = "gave up" if pause_s is None else f"sent again after {pause_s:.2f} s"
                self._store.note_fault(question, error.fault, remedy)
                if pause_s is None:
                    raise
                if error.fault.kind == FaultKind.RATE_LIMIT:
                    self._not_before = max(self._not_before, time.monotonic() + pause_s)
            await asyncio.sleep(pause_s)

    def _pause_s(
        self, error: CallFailed, failed: int, started: float, draw: Random
    ) -> float | None:
        spent_s = time.monotonic() - started
        return self.endpoint.retry.pause_s(error.status, failed, error.pause_s, spent_s, draw)

    async def _wait_out(self) -> None:
        """Wait while the endpoint wants no calls. Bounded: a pause past the deadline is none."""
        wait_s = self._not_before - time.monotonic()
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    async def _try(self, body: Mapping[str, Any]) -> TeacherAnswer:
        from openai import APIConnectionError, APIStatusError, APITimeoutError

        fields = dict(body)
        named = {name: fields.pop(name) for name in ("model", "messages")}
        headers = {"X-Call-Id": uuid.uuid4().hex}
        try:
            # `extra_body` passes the other fields on as they are, whatever the package knows.
            raw = await self.openai.chat.completions.with_raw_response.create(
                **named, extra_body=fields, extra_headers=headers
            )
        except APITimeoutError:
            late = f"no answer within {self.endpoint.call_s:g} s"
            raise CallFailed(Fault(FaultKind.TIMEOUT, late), TIMEOUT) from None
        except APIStatusError as error:
            raise _refusal(error.status_code, error.response.headers, error.response.text) from None
        except APIConnectionError as error:
            lost = Fault(FaultKind.CONNECTION, f"{error} ({error.__cause__})"[:SHOWN])
            raise CallFailed(lost, CONNECTION) from None
        price = raw.headers.get(COST)
        try:
            completion = raw.http_response.json()
            return answer_of(completion, None if price is None else float(price))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            text = f"HTTP 200 without a message ({error}): {raw.http_response.text[:SHOWN]}"
            raise CallFailed(Fault(FaultKind.SERVER_ERROR, text), 502) from None


def _refusal(status: int, headers: Mapping[str, str], text: str) -> CallFailed:
    detail = f"HTTP {status}: {text[:SHOWN]}"
    pause_s = asked_pause_s(headers.get("retry-after"))
    if status == 429:
        return CallFailed(Fault(FaultKind.RATE_LIMIT, detail), status, pause_s, QUOTA in text)
    if status == TIMEOUT:
        return CallFailed(Fault(FaultKind.TIMEOUT, detail), status, pause_s)
    if status >= 500 and status != 501:
        return CallFailed(Fault(FaultKind.SERVER_ERROR, detail), status, pause_s)
    return CallFailed(Fault(FaultKind.REQUEST, detail), status, is_permanent=True)
