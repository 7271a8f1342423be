"""The agent loop: call the model and run its tool calls until it answers or reaches a limit.

With a partner, a message without calls goes to the partner and is not an answer. A failed attempt
is data: the loop returns it with its status, and raises only for errors of the program itself.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

import orjson

from tutti.storage import MOST_MESSAGE, Cost, ErrorType, now
from tutti.tasks.agents.models.calls import read_calls
from tutti.tasks.agents.models.context import Ledger, PromptWindow
from tutti.tasks.agents.models.model import (
    ChatModel,
    ContextExceeded,
    Message,
    ModelCallFailed,
    Reply,
    WorkingClock,
)
from tutti.tasks.agents.models.prompts import Score, last_boxed
from tutti.tasks.agents.tools.tool import (
    MALFORMED,
    Environment,
    ToolResult,
    ToolUnavailable,
    refused,
    run_together,
)
from tutti.tasks.serving.registry import Dialect, Model

WORLD_TOOL = "environment"  # the tool name of runs that belong to the world and not to a call
NO_CALL = "no tool was called"  # sent to an agent whose answer must be a call
PartnerReply = TypeVar("PartnerReply", bound=str | ToolResult | None)
Rebuild = Callable[[Callable[[str], float], Sequence[str]], str]
"""Makes the text of the next prompt from (token counter, errors of the last turn's calls)."""


class Stop(StrEnum):
    """Why an attempt ended."""

    ANSWERED = "answered"
    NO_ANSWER = "no_answer"
    MALFORMED = "malformed"
    """Too many consecutive turns without a valid call."""
    TURNS = "turns"
    TIME = "time"
    TOKENS = "tokens"
    MONEY = "money"
    CONTEXT = "context"
    MODEL_CALL_FAILED = "ModelCallFailed"
    TOOL_UNAVAILABLE = "ToolUnavailable"


@dataclass(frozen=True)
class AttemptLimits:
    """The limits of an attempt: turns, time, tokens, money."""

    turns: int = 8
    working_s: float = 120.0
    """Working seconds, by the rule of `WorkingClock`."""
    tokens: int | None = None
    """Prompt and completion tokens of all calls."""
    cost_usd: float | None = None
    """Cost of the model's calls and of its tools, as far as it is known; calls of unknown cost are
    limited by the turns."""
    malformed: int = 4
    """Consecutive turns without a valid call."""


@dataclass(frozen=True)
class Agent:
    """Settings of an attempt besides model, tools and limits."""

    dialect: Dialect = "openai"
    """The text form of calls, if the endpoint does not parse them."""
    read_answer: Callable[[str], str | None] = last_boxed
    """Extracts the final answer from a message without calls; None if it has none."""
    context_tokens: int | None = None
    """Approximate token limit of a prompt; older turns beyond it are left out."""
    ledger: bool = False
    """Whether to tell the model after each turn what it has tried and spent."""
    calls_answer: bool = False
    """Whether calling the offered tools is the answer; nothing is carried out."""
    calls_a_turn: int | None = None
    """Further calls of a turn are refused with an error to the model; None carries out all
    concurrently."""
    rebuild: Rebuild | None = None
    """Makes each prompt anew: the instructions and this text. The answer is then what a tool ends
    the attempt with; a message without calls is none."""


def agent_of(model: Model, agent: Agent, max_tokens: int) -> Agent:
    """`agent` adapted to `model`: its dialect, and a prompt limit that leaves room in the model's
    context for `max_tokens` of answer."""
    room = max(model.context_tokens - max_tokens, 1)
    wanted = agent.context_tokens
    return replace(
        agent, dialect=model.dialect, context_tokens=room if wanted is None else min(room, wanted)
    )


@dataclass
class Trajectory:
    """The messages, calls and tool results of an attempt, and its score."""

    messages: list[Message] = field(default_factory=list)
    prompt_messages: int = 0
    """How many of the first `messages` form the prompt."""
    call_ids: dict[int, str] = field(default_factory=dict)
    """Maps the position of an assistant message to the id of its call."""
    tool_runs: list[tuple[int, str, str, ToolResult]] = field(default_factory=list)
    """(step, tool, arguments, result)"""
    status: str = "cancelled"
    stop_reason: str = ""
    error_type: str | None = None
    """The kind of error that ended it: an `ErrorType`, or `http_<status>`."""
    error_message: str | None = None
    http_status: int | None = None
    """The HTTP status of the call that ended it as an infra_error."""
    answer: str | None = None
    world_state: Mapping[str, Any] | None = None
    """The final state of the attempt's world, if it has one."""
    score: Score | None = None
    """None before scoring, if the attempt does not count, and if its scorer failed."""
    steps: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    held_s: float = 0.0
    """How long it waited for its endpoints."""
    partner_s: float = 0.0
    """How long the agent waited for its partner."""
    cost: Cost = field(default_factory=Cost)
    """Of its calls and tools."""
    started_at: datetime = field(default_factory=now)
    ended_at: datetime = field(default_factory=now)
    seconds: float = 0.0

    @property
    def working_s(self) -> float:
        """Its seconds without waits."""
        return self.seconds - self.held_s - self.partner_s

    @property
    def cost_usd(self) -> float | None:
        """The attempt's cost; None if a price is unknown."""
        return self.cost.usd

    def fail(self, status: str, error_type: str, message: str) -> None:
        """End it with this status for an error of this kind."""
        self.status, self.error_type = status, error_type
        self.error_message = message[:MOST_MESSAGE]

    @property
    def text(self) -> str:
        """The model's last text; empty before its first message."""
        said = (m["content"] for m in reversed(self.messages) if m["role"] == "assistant")
        return next(said, "") or ""


async def run_attempt(
    prompt: Sequence[Message],
    model: ChatModel,
    environment: Environment,
    limits: AttemptLimits,
    agent: Agent = Agent(),
    on_step: Callable[[float], None] = lambda seconds: None,
) -> Trajectory:
    """Run one attempt at `prompt` to its end; its failures are part of the returned trajectory.
    `on_step` is called at the end of each step with the seconds from its call to the end of its
    tools."""
    attempt = _Attempt(prompt, model, environment, limits, agent)
    attempt.on_step = on_step
    trajectory = attempt.trajectory
    try:
        with attempt.clock.running():
            await attempt.run()
    except ContextExceeded as error:
        trajectory.stop_reason = Stop.CONTEXT
        trajectory.fail("limit", ErrorType.CONTEXT_EXCEEDED, str(error))
    except ModelCallFailed as error:
        trajectory.stop_reason, trajectory.http_status = Stop.MODEL_CALL_FAILED, error.status
        trajectory.fail("infra_error", error.error_type, str(error))
    except ToolUnavailable as error:
        trajectory.stop_reason = Stop.TOOL_UNAVAILABLE
        trajectory.fail("infra_error", ErrorType.TOOL_UNAVAILABLE, str(error))
    trajectory.ended_at = now()
    trajectory.seconds, trajectory.held_s, trajectory.partner_s = attempt.clock.read()
    return trajectory


class _Attempt:
    def __init__(
        self,
        prompt: Sequence[Message],
        model: ChatModel,
        environment: Environment,
        limits: AttemptLimits,
        agent: Agent,
    ) -> None:
        self.model, self.limits, self.agent = model, limits, agent
        self.tools, self.partner = environment.tools, environment.partner
        self.trajectory = Trajectory(list(prompt), prompt_messages=len(prompt))
        self.clock = WorkingClock()
        self._window = PromptWindow(agent.context_tokens)
        self._ledger = Ledger() if agent.ledger else None
        self._malformed = 0  # consecutive turns
        self.on_step: Callable[[float], None] = lambda seconds: None

    async def run(self) -> None:
        if self.partner is not None:
            self._hear(await self._partners(self.partner.begin()))
        while not self._stopped():
            asked = time.monotonic()
            reply = await self._ask()
            calls, errors = self._take(reply)
            carried_out = calls and not self.agent.calls_answer
            final = await self._use_tools(calls) if carried_out else None
            self.on_step(time.monotonic() - asked)
            if calls and self.agent.calls_answer:
                answer = orjson.dumps([call["function"] for call in calls]).decode()
                return self._finish(answer, Stop.ANSWERED)
            if final is not None:  # stored as a message of the model without a call
                self.trajectory.messages.append({"role": "assistant", "content": final})
                return self._finish(self.agent.read_answer(final))
            if self.partner is not None and self.partner.over():
                return self._end()
            if not calls and not errors:
                if self.agent.rebuild is not None:
                    errors = (NO_CALL,)
                elif not await self._answered(reply.message["content"]):
                    return
            self._report_errors(errors, alone=not calls)
            self._append_ledger()

    def _take(self, reply: Reply) -> tuple[list[Any], Sequence[str]]:
        """Record a reply; return its calls, including those that the endpoint left in the text, and
        the errors of unreadable ones."""
        done, message = self.trajectory, reply.message
        read = read_calls(message["content"], self.agent.dialect, reply.call_id)
        if read.calls and not message.get("tool_calls"):
            message["tool_calls"], message["content"] = list(read.calls), read.content
        done.call_ids[len(done.messages)] = reply.call_id
        done.messages.append(message)
        done.prompt_tokens += reply.prompt_tokens
        done.cached_tokens += reply.cached_tokens
        done.completion_tokens += reply.completion_tokens
        done.cost.add(reply.cost_usd)
        done.tool_runs += [(done.steps, *run) for run in reply.runs]
        return message.get("tool_calls") or [], read.errors

    async def _answered(self, said: str) -> bool:
        """Send a message without calls to the partner; return whether the dialogue continues."""
        if self.partner is None:
            self._finish(self.agent.read_answer(said))
            return False
        answer = await self._partners(self.partner.reply(said))
        goes_on = answer is not None
        if isinstance(answer, ToolResult):
            self.trajectory.tool_runs.append((self.trajectory.steps, WORLD_TOOL, "{}", answer))
            goes_on, answer = answer.final is None, answer.content
        self._hear(answer)
        self._malformed = 0  # a message to the partner is not a malformed turn
        if not goes_on:
            self._end()
        return goes_on

    async def _partners(self, saying: Awaitable[PartnerReply]) -> PartnerReply:
        """Get the partner's message; its time and its model's limits do not count for the agent."""
        try:
            with self.clock.partner():
                return await saying
        except ContextExceeded as error:
            kind = ErrorType.PARTNER_CONTEXT_EXCEEDED
            text = f"the partner's context is full: {error}"
            raise ModelCallFailed(text, error_type=kind) from error

    def _hear(self, text: str | None) -> None:
        if text is not None:
            self.trajectory.messages.append({"role": "user", "content": text})

    def _stopped(self) -> bool:
        """Whether a limit is reached; if so, ends the attempt."""
        done, limits = self.trajectory, self.limits
        tokens = done.prompt_tokens + done.completion_tokens
        done.seconds, done.held_s, done.partner_s = self.clock.read()
        reached = {
            Stop.TURNS: done.steps >= limits.turns,
            Stop.TIME: done.working_s > limits.working_s,
            Stop.TOKENS: limits.tokens is not None and tokens >= limits.tokens,
            Stop.MONEY: limits.cost_usd is not None and done.cost.known_usd >= limits.cost_usd,
            Stop.MALFORMED: self._malformed >= limits.malformed,
        }
        reason = next((reason for reason, is_so in reached.items() if is_so), None)
        if reason is None:
            return False
        done.status = "model_error" if reason is Stop.MALFORMED else "limit"
        done.stop_reason = reason
        return True

    async def _ask(self) -> Reply:
        messages = self.trajectory.messages
        rebuilt = self.agent.rebuild is not None
        positions = [0, len(messages) - 1] if rebuilt else self._window.select(messages)
        self.trajectory.steps += 1
        prompt = [messages[position] for position in positions]
        whole = len(positions) == len(messages)
        reply = await self.model.complete(
            prompt, self.tools.schemas, self.trajectory.steps, None if whole else positions
        )
        self._window.learn(prompt, reply.prompt_tokens)
        return reply

    def _end(self) -> None:
        self._finish(self.agent.read_answer(self.trajectory.text), Stop.ANSWERED)

    def _finish(self, answer: str | None, stop: Stop | None = None) -> None:
        """End the attempt; without an answer it is the model's error, unless `stop` is given."""
        done = self.trajectory
        done.answer = answer
        done.stop_reason = stop or (Stop.NO_ANSWER if answer is None else Stop.ANSWERED)
        done.status = "ok" if done.stop_reason is Stop.ANSWERED else "model_error"

    async def _use_tools(self, calls: Sequence[Any]) -> str | None:
        """Run a turn's calls; return the final text of the first that ends the attempt."""
        done, most = self.trajectory, self.agent.calls_a_turn
        functions = [call["function"] for call in calls]
        try:
            results = await run_together(
                self.tools.use(f["name"], f["arguments"])
                if most is None or place < most
                else _refuse_further(most)
                for place, f in enumerate(functions)
            )
        except ContextExceeded as error:  # of a model that the tool called: not the agent's limit
            kind = ErrorType.TOOL_CONTEXT_EXCEEDED
            text = f"the context of a tool's model is full: {error}"
            raise ModelCallFailed(text, error_type=kind) from error
        for call, function, result in zip(calls, functions, results, strict=True):
            run = (done.steps, function["name"], function["arguments"], result)
            done.tool_runs.append(run)
            done.cost.add(result.cost_usd)
            if self._ledger is not None:
                self._ledger.note(function["name"], function["arguments"], result.status)
            message = {"role": "tool", "tool_call_id": call["id"], "name": function["name"]}
            done.messages.append(message | {"content": result.content})
        made_sense = any(result.error_type != MALFORMED for result in results)
        self._malformed = 0 if made_sense else self._malformed + 1
        return next((result.final for result in results if result.final is not None), None)

    def _report_errors(self, errors: Sequence[str], alone: bool) -> None:
        """Report unreadable calls as a user message, because they have no id for an answer."""
        self._malformed += alone and bool(errors)
        if self.agent.rebuild is not None:
            window = self._window
            self._hear(self.agent.rebuild(lambda text: window.tokens({"content": text}), errors))
        elif errors:
            self._hear("\n".join(f"error: {error}" for error in errors))

    def _append_ledger(self) -> None:
        if self._ledger is None:
            return
        done, limits = self.trajectory, self.limits
        spent: list[tuple[str, float | Cost, float | None]] = [
            ("turns", float(done.steps), float(limits.turns)),
            ("tokens", float(done.prompt_tokens + done.completion_tokens), limits.tokens),
        ]
        if limits.cost_usd is not None:
            spent.append(("USD", done.cost, limits.cost_usd))
        last = done.messages[-1]
        done.messages[-1] = last | {"content": last["content"] + self._ledger.text(spent)}


async def _refuse_further(most: int) -> ToolResult:
    return refused(f"{most} call{'s' * (most > 1)} a turn; this one was not carried out")
