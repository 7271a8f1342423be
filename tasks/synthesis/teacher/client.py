"""Client that sends a teacher's requests to the gateway, and records each retry with its cause.

In: an endpoint, a request. Out: an answer, or `CallFailed` with a named fault. The pause that a 429
response demands applies to all calls of a client.
"""

import asyncio
import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import orjson

from tutti.errors import UsageError
from tutti.tasks.agents.models import (
    Client,
    ContextExceeded,
    ModelCallFailed,
    Retry,
    completion,
    cost_of,
    retried,
)
from tutti.tasks.serving.registry import Model
from tutti.tasks.synthesis.teacher.faults import Fault, FaultKind
from tutti.tasks.synthesis.teacher.reading import TeacherAnswer, answer_of
from tutti.tasks.synthesis.teacher.store import TeacherStore

RETRY = Retry(
    {0: 3, 408: 2, 429: 8, 500: 3, 502: 3, 503: 4, 504: 2, 529: 4},
    first_s=1.0,
    most_s=30.0,
    deadline_s=900.0,
)
QUOTA = "insufficient_quota"
"""OpenAI's code of a 429 that no waiting ends."""
KINDS = {0: FaultKind.CONNECTION, 408: FaultKind.TIMEOUT, 429: FaultKind.RATE_LIMIT}
"""Kinds of fault by status; other statuses from 500 on are server errors, and 4xx requests."""
SHOWN = 300


@dataclass(frozen=True)
class ProviderAddress:
    """The provider's address for batches, which the gateway does not forward."""

    base_url: str
    api_key: str = field(repr=False)


def provider_address(model: Model) -> ProviderAddress:
    """Return the provider address of a model of the registry. Raises UsageError if it has no
    address of its own, if its key is not a bearer token, or if the key's variable is not set."""
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
    """The endpoint of a teacher."""

    base_url: str
    """The gateway's, with ``/v1``."""
    model: str
    program: str = "teacher"
    """The gateway's program, which groups calls."""
    role: str = "teacher"
    """Of its calls in the gateway's records."""
    call_s: float = 300.0
    retry: Retry = RETRY
    batch: ProviderAddress | None = None
    """Where its batches are; None: at `base_url`."""

    @property
    def batches(self) -> ProviderAddress:
        """The address for its batches."""
        return self.batch or ProviderAddress(self.base_url, "none")


class CallFailed(Exception):
    """A request without an answer."""

    def __init__(self, fault: Fault, status: int, is_permanent: bool = False) -> None:
        super().__init__(fault.detail)
        self.fault, self.status, self.is_permanent = fault, status, is_permanent


class TeacherClient(Client):
    """Connections to one endpoint; an async context manager."""

    def __init__(self, endpoint: TeacherEndpoint, store: TeacherStore) -> None:
        super().__init__(endpoint.base_url.removesuffix("/v1"))
        self.endpoint, self._store = endpoint, store
        self._headers = [
            (b"X-Tutti-Role", endpoint.role.encode()),
            (b"X-Program-Id", endpoint.program.encode()),
        ]
        self._not_before = 0.0

    async def send(self, body: Mapping[str, Any], question: str) -> TeacherAnswer:
        """Return the answer to a chat completion request, retried if useful. Raises CallFailed."""
        data = orjson.dumps(body)

        def note(error: ModelCallFailed, pause_s: float | None) -> None:
            fault = _fault(error)
            if fault.kind == FaultKind.REQUEST:  # the teacher decides what becomes of it
                return
            remedy = "gave up" if pause_s is None else f"sent again after {pause_s:.2f} s"
            self._store.note_fault(question, fault, remedy)
            if fault.kind == FaultKind.RATE_LIMIT and pause_s is not None:
                self._not_before = max(self._not_before, time.monotonic() + pause_s)

        try:
            return await retried(
                lambda: self._try(data), self.endpoint.retry, Random(question), note
            )
        except ContextExceeded as error:
            fault = Fault(FaultKind.REQUEST, f"HTTP 400: {error}"[:SHOWN])
            raise CallFailed(fault, 400, is_permanent=True) from None
        except ModelCallFailed as error:
            fault = _fault(error)
            raise CallFailed(fault, error.status, fault.kind == FaultKind.REQUEST) from None

    async def _try(self, data: bytes) -> TeacherAnswer:
        if (wait_s := self._not_before - time.monotonic()) > 0:  # no later than the deadline
            await asyncio.sleep(wait_s)
        headers = [*self._headers, (b"X-Call-Id", uuid.uuid4().hex.encode())]
        try:
            answer = await completion(self, headers, data, self.endpoint.call_s)
        except ModelCallFailed as error:
            if error.status == 429 and QUOTA in str(error):
                raise CallFailed(_fault(error), 429, is_permanent=True) from None
            raise
        try:
            return answer_of(orjson.loads(answer.body), cost_of(answer))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            text = f"HTTP 200 without a message ({error}): {answer.body[:SHOWN]!r}"
            raise ModelCallFailed(text, 502) from None


def _fault(error: ModelCallFailed) -> Fault:
    is_server = error.status >= 500 and error.status != 501
    kind = FaultKind.SERVER_ERROR if is_server else FaultKind.REQUEST
    return Fault(KINDS.get(error.status, kind), str(error)[:SHOWN])
