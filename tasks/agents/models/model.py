"""Chat models in the form for the agent loop, and the one behind the gateway."""

import asyncio
import contextlib
import re
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Protocol, TypeVar

import orjson

from tutti.errors import TuttiError
from tutti.storage import ErrorType, WaitedTime, http_error
from tutti.tasks.agents.models.calls import as_text
from tutti.tasks.agents.models.client import (
    COMPLETIONS,
    CONNECTION,
    RETRY,
    Client,
    Retry,
)
from tutti.tasks.agents.models.context import spans
from tutti.tasks.agents.models.reasoning import AUTO, separated
from tutti.tasks.agents.tools.tool import ToolResult
from tutti.tasks.serving.registry import Dialect, Model
from tutti.tasks.serving.wire import Answer, Headers, NoAnswer, asked_pause_s
from tutti.terminal import shown

_RUNNING: ContextVar["WorkingClock | None"] = ContextVar("working_clock", default=None)


class WorkingClock:
    """The clock of one attempt; it runs from its creation. Working time is the time since then,
    without the attempt's waits for its partner and its endpoints. A call waits for its endpoint
    while the gateway holds it, in each try that fails and in the pause before the next one, so only
    the answered try of a call is work. Models report their waits to the running attempt
    (`note_wait`), at any call depth."""

    def __init__(self) -> None:
        self.began, self.partner_s = time.monotonic(), 0.0
        self._held = WaitedTime()

    def read(self) -> tuple[float, float, float]:
        """Seconds since it began, those of waiting for endpoints, and those of the partner."""
        return time.monotonic() - self.began, self._held.seconds, self.partner_s

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Count the waits that the block reports."""
        token = _RUNNING.set(self)
        try:
            yield
        finally:
            _RUNNING.reset(token)

    @contextlib.contextmanager
    def partner(self) -> Iterator[None]:
        """Count the block as the partner's time, with the partner's own waits."""
        began, token = time.monotonic(), _RUNNING.set(None)
        try:
            yield
        finally:
            _RUNNING.reset(token)
            self.partner_s += time.monotonic() - began

    def wait(self, start: float, end: float) -> None:
        """Count a wait for an endpoint, in seconds of the monotonic clock."""
        self._held.add(start, end)


def note_wait(start: float, end: float) -> None:
    """Report a wait for an endpoint to the running attempt, if there is one."""
    if (clock := _RUNNING.get()) is not None:
        clock.wait(start, end)


Message = dict[str, Any]
Messages = Sequence[Message]
Schemas = Sequence[Mapping[str, Any]]
"""Tools in OpenAI's function format."""
Positions = Sequence[int] | None
"""Of messages in their conversation; None where they are all of it."""
TOO_LONG_STATUS = frozenset((400, 413, 422))
# OpenAI, vLLM, SGLang and llama.cpp name the context; Anthropic and Together do not.
TOO_LONG = re.compile("context|prompt is too long|max_new_tokens")
ORCHESTRATOR = "orchestrator"
RELEASE = b"/programs/release"
T = TypeVar("T")
TIMEOUT = 408
"""Status of a call without an answer in time."""
KEPT, AUXILIARY = b"kept", b"auxiliary"
"""Who stores a call's messages: the sweep, with the attempt; or the gateway, beside them."""


class ModelCallFailed(TuttiError, RuntimeError):
    """The call got no usable answer for a reason outside the model: server, network, disk."""

    def __init__(
        self,
        message: str,
        status: int = 200,
        pause_s: float | None = None,
        error_type: str | None = None,
    ) -> None:
        """`error_type`: the kind of error, if the status does not determine it."""
        super().__init__(message)
        self.status, self.pause_s = status, pause_s
        kinds = {CONNECTION: ErrorType.CONNECTION, 200: ErrorType.INVALID_REPLY}
        self.error_type = error_type or kinds.get(status) or http_error(status)


class ContextExceeded(TuttiError, RuntimeError):
    """The prompt no longer fits the model's context window."""


@dataclass(frozen=True)
class Reply:
    """One assistant message and its cost."""

    message: Message
    call_id: str
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    """None where the model's price is unknown."""
    runs: Sequence[tuple[str, str, ToolResult]] = ()
    """Tool runs that led to the message: (tool, arguments, result). Their cost is included."""


class ChatModel(Protocol):
    """The interface of models for the agent loop."""

    async def complete(
        self, messages: Messages, tools: Schemas, step: int, positions: Positions = None
    ) -> Reply:
        """Generate the next assistant message. `positions` are the positions of `messages` in the
        conversation, if they are not all of it. Raises ModelCallFailed or ContextExceeded."""
        ...


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters."""

    temperature: float = 0.0
    max_tokens: int = 96
    seed: int = 0
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the request: top_p, stop, a template's thinking switch. They override the
    fields above; None removes a field."""
    max_tokens_field: str = "max_tokens"
    described: Dialect | None = None
    """The dialect that describes tools as text, for endpoints that accept none."""
    reasoning_field: str | None = None
    """The message field in which earlier reasoning is sent back; None sends none."""
    reasoning: str = AUTO
    """How reasoning in a reply's text is separated: `tutti.tasks.agents.models.reasoning`."""

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a request besides messages, tools and seed; None removes a field."""
        most = {self.max_tokens_field: self.max_tokens}
        return {"temperature": self.temperature, **most, **self.more}


def sampling_of(model: Model, temperature: float, max_tokens: int, seed: int) -> Sampling:
    """The sampling parameters of `model`, with its own fields and their names."""
    return Sampling(
        temperature,
        max_tokens,
        seed,
        more=model.fields,
        max_tokens_field=model.max_tokens_field,
        described=None if model.tools else model.dialect,
        reasoning_field=model.reasoning_field,
    )


@dataclass(frozen=True)
class CallOrigin:
    """The purpose of calls: cell, attempt and role."""

    program: str
    """The gateway's program: an attempt's id."""
    cell_id: str
    role: str = ORCHESTRATOR


class GatewayModel:
    """A model behind the gateway, called for one attempt (the gateway's program)."""

    def __init__(
        self,
        client: Client,
        name: str,
        origin: CallOrigin,
        sampling: Sampling,
        retry: Retry = RETRY,
    ) -> None:
        self._client = client
        self._name = name
        self._program = origin.program
        self._sampling = sampling
        self._retry = retry
        self._origin, self._role = origin, origin.role
        self._headers = [
            (b"X-Program-Id", origin.program.encode()),
            (b"X-Tutti-Cell", origin.cell_id.encode()),
            (b"X-Tutti-Role", origin.role.encode()),
            (b"X-Tutti-Messages", KEPT if origin.role == ORCHESTRATOR else AUXILIARY),
        ]

    async def complete(
        self, messages: Messages, tools: Schemas, step: int, positions: Positions = None
    ) -> Reply:
        """One chat completion, retried if useful. Raises ModelCallFailed or ContextExceeded."""
        data = orjson.dumps(self._body(messages, tools, step))
        draw = Random(f"{self._program}/{step}")
        return await retried(lambda: self._try(data, step, positions), self._retry, draw)

    def choosing(self, choices: Sequence[str]) -> "GatewayModel":
        """The same model, answering with one of `choices`: vLLM's structured outputs."""
        more = {**self._sampling.more, "structured_outputs": {"choice": list(choices)}}
        sampling = replace(self._sampling, more=more)
        return GatewayModel(self._client, self._name, self._origin, sampling, self._retry)

    def _body(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], step: int
    ) -> dict[str, Any]:
        sampling = self._sampling
        # With one seed for all steps, near-equal prompts of one dialogue are answered alike.
        seed = sampling.seed + step
        if sampling.described is not None:
            messages, tools = as_text(messages, tools, sampling.described), ()
        fields = {
            "model": self._name,
            "messages": [_sent(message, sampling.reasoning_field) for message in messages],
            "seed": seed,
            **sampling.fields,
        }
        if tools:
            fields["tools"] = tools
        return {name: value for name, value in fields.items() if value is not None}

    async def _try(self, data: bytes, step: int, positions: Sequence[int] | None) -> Reply:
        call_id = uuid.uuid4().hex
        headers = [
            *self._headers,
            (b"X-Call-Id", call_id.encode()),
            (b"X-Tutti-Step", b"%d" % step),
        ]
        if self._role == ORCHESTRATOR and positions is not None:
            headers.append((b"X-Tutti-Spans", spans(positions).encode()))
        answer = await completion(self._client, headers, data)
        try:
            reply = _reply(orjson.loads(answer.body), call_id, cost_of(answer))
            return replace(reply, message=separated(reply.message, self._sampling.reasoning))
        except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError) as error:
            text = _shown(answer.body, 200)
            raise ModelCallFailed(f"HTTP 200 without a message: {text}") from error

    async def release(self) -> dict[str, float]:
        """Release the program at the gateway; return its usage by unit, as far as the gateway knows
        it. Raises ModelCallFailed."""
        body = orjson.dumps({"program_id": self._program})
        try:
            answer = orjson.loads((await self._client.post(RELEASE, [], body)).body)
        except NoAnswer as error:
            raise ModelCallFailed(f"NoAnswer: {error}", CONNECTION) from error
        except orjson.JSONDecodeError as error:
            raise ModelCallFailed(f"JSONDecodeError: {error}") from error
        spent: dict[str, float] = answer.get("spent") or {}
        return spent


def restricted(model: ChatModel, choices: Sequence[str]) -> ChatModel:
    """Return `model` restricted to decoding one of `choices`. Raises TypeError for a model without
    an engine."""
    choosing: Callable[[Sequence[str]], ChatModel] | None = getattr(model, "choosing", None)
    if choosing is None:
        raise TypeError(f"{type(model).__name__} cannot be restricted to given answers")
    return choosing(choices)


async def retried(
    one_try: Callable[[], Awaitable[T]],
    retry: Retry,
    draw: Random,
    on_failure: Callable[[ModelCallFailed, float | None], None] = lambda error, pause_s: None,
) -> T:
    """Return the result of a try; one that raises ModelCallFailed is repeated according to `retry`.
    `on_failure` gets each failed try with the pause in seconds before the next, None for the last.
    Raises ModelCallFailed of the last try."""
    started, failed = time.monotonic(), Counter[int]()
    while True:
        try:
            return await one_try()
        except ModelCallFailed as error:
            note_wait(started, time.monotonic())
            failed[error.status] += 1
            times, spent_s = failed[error.status], time.monotonic() - started
            pause_s = retry.pause_s(error.status, times, error.pause_s, spent_s, draw)
            on_failure(error, pause_s)
            if pause_s is None:
                raise
        await asyncio.sleep(pause_s)
        note_wait(started, time.monotonic())


async def completion(
    client: Client, headers: Headers, body: bytes, call_s: float | None = None
) -> Answer:
    """Make one try of a chat completion; return an answer with status 200. Raises ContextExceeded,
    and ModelCallFailed, with status 408 if there is no answer within `call_s` seconds."""
    sent = time.monotonic()
    try:
        async with asyncio.timeout(call_s):
            answer = await client.post(COMPLETIONS, headers, body)
    except NoAnswer as error:
        raise ModelCallFailed(str(error), CONNECTION) from error
    except TimeoutError as error:
        raise ModelCallFailed(f"no answer within {call_s:g} s", TIMEOUT) from error
    if answer.status != 200:
        raise _refusal(answer)
    note_wait(sent, sent + float(answer.header(b"x-tutti-held-s") or 0))
    return answer


def cost_of(answer: Answer) -> float | None:
    """Return the cost of a call in USD, by the gateway; None if it knows no price."""
    price = answer.header(b"x-tutti-cost-usd")
    return None if price is None else float(price)


def _refusal(answer: Answer) -> ModelCallFailed | ContextExceeded:
    text = _shown(answer.body, 500)
    if answer.status in TOO_LONG_STATUS and TOO_LONG.search(text):
        return ContextExceeded(text)
    pause_s = asked_pause_s(answer.header(b"retry-after"))
    return ModelCallFailed(f"HTTP {answer.status}: {text}", answer.status, pause_s)


def _shown(body: bytes, characters: int) -> str:
    return shown(body[: 4 * characters].decode(errors="replace")[:characters])


def _sent(message: Message, reasoning_field: str | None) -> Message:
    """Return a message for the model, with its reasoning only if the model needs it back."""
    if "reasoning" not in message:
        return message
    sent = {name: value for name, value in message.items() if name != "reasoning"}
    return sent if reasoning_field is None else sent | {reasoning_field: message["reasoning"]}


def _reply(answer: Mapping[str, Any], call_id: str, cost_usd: float | None) -> Reply:
    message = answer["choices"][0]["message"]
    kept: Message = {"role": "assistant", "content": message.get("content") or ""}
    # Two names for the same field: newer vLLM releases and Together use `reasoning`.
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(reasoning, str) and reasoning:
        kept["reasoning"] = reasoning
    if message.get("tool_calls"):
        kept["tool_calls"] = [
            {"id": call["id"], "type": "function", "function": call["function"]}
            for call in message["tool_calls"]
        ]
    usage = answer.get("usage") or {}
    details = usage.get("prompt_tokens_details") or {}
    return Reply(
        kept,
        call_id,
        usage.get("prompt_tokens") or 0,
        details.get("cached_tokens") or 0,
        usage.get("completion_tokens") or 0,
        cost_usd,
    )
