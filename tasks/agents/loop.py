"""The agent loop: ask the model, carry out its tool calls, until it answers or a limit is reached.

Used for evaluation, for synthesis gates and for rollouts alike. A failed attempt is data: the loop
returns it with its status, and raises only for errors of the program itself.
"""

import asyncio
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from storage.clock import now
from tasks.agents.model import ChatModel, ContextExceeded, Message, ModelCallFailed, Reply
from tasks.agents.prompts import SYSTEM_PROMPT, last_boxed
from tasks.agents.toolbox import Toolbox, ToolResult, ToolUnavailable
from tasks.agents.tools import TOOL_SCHEMAS


@dataclass(frozen=True)
class Limits:
    """When an attempt is stopped."""

    turns: int = 8
    working_s: float = 120.0
    """Seconds of work: time held by the gateway's policy is not counted."""


@dataclass
class Trajectory:
    """Everything an attempt said, called and got back."""

    messages: list[Message] = field(default_factory=list)
    call_ids: dict[int, str] = field(default_factory=dict)
    """Position of an assistant message to the id of the call that made it."""
    tool_runs: list[tuple[int, str, str, ToolResult]] = field(default_factory=list)
    """(step, tool, arguments, result)"""
    status: str = "cancelled"
    stop_reason: str = ""
    error_type: str | None = None
    answer: str | None = None
    steps: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    held_s: float = 0.0
    cost_usd: float = 0.0
    started_at: datetime = field(default_factory=now)
    ended_at: datetime = field(default_factory=now)
    seconds: float = 0.0


async def run_attempt(
    question: str, model: ChatModel, toolbox: Toolbox, limits: Limits
) -> Trajectory:
    """Run one attempt at `question` to its end; returns what happened, whatever happened."""
    trajectory = Trajectory()
    trajectory.messages = [
        {"role": "system", "content": SYSTEM_PROMPT},
        {"role": "user", "content": question},
    ]
    started = time.monotonic()
    try:
        await _converse(trajectory, model, toolbox, limits, started)
    except ContextExceeded as error:
        trajectory.status, trajectory.stop_reason = "limit", "context"
        trajectory.error_type = str(error)[:200]
    except (ModelCallFailed, ToolUnavailable) as error:
        trajectory.status, trajectory.stop_reason = "infra_error", type(error).__name__
        trajectory.error_type = str(error)[:200]
    trajectory.ended_at = now()
    trajectory.seconds = time.monotonic() - started
    return trajectory


async def _converse(
    trajectory: Trajectory, model: ChatModel, toolbox: Toolbox, limits: Limits, started: float
) -> None:
    while True:
        if trajectory.steps >= limits.turns:
            trajectory.status, trajectory.stop_reason = "limit", "turns"
            return
        if time.monotonic() - started - trajectory.held_s > limits.working_s:
            trajectory.status, trajectory.stop_reason = "limit", "time"
            return
        trajectory.steps += 1
        reply = await model.complete(trajectory.messages, TOOL_SCHEMAS, trajectory.steps)
        _take(trajectory, reply)
        calls = reply.message.get("tool_calls") or []
        if not calls:
            _finish(trajectory, reply.message["content"])
            return
        await _use_tools(trajectory, toolbox, calls)


def _take(trajectory: Trajectory, reply: Reply) -> None:
    trajectory.call_ids[len(trajectory.messages)] = reply.call_id
    trajectory.messages.append(reply.message)
    trajectory.prompt_tokens += reply.prompt_tokens
    trajectory.cached_tokens += reply.cached_tokens
    trajectory.completion_tokens += reply.completion_tokens
    trajectory.held_s += reply.held_s
    trajectory.cost_usd += reply.cost_usd


def _finish(trajectory: Trajectory, content: str) -> None:
    trajectory.answer = last_boxed(content)
    found = trajectory.answer is not None
    trajectory.status = "ok" if found else "model_error"
    trajectory.stop_reason = "answered" if found else "no_answer"


async def _use_tools(trajectory: Trajectory, toolbox: Toolbox, calls: list[Any]) -> None:
    functions = [call["function"] for call in calls]
    results = await asyncio.gather(*(toolbox.use(f["name"], f["arguments"]) for f in functions))
    for call, function, result in zip(calls, functions, results, strict=True):
        run = (trajectory.steps, function["name"], function["arguments"], result)
        trajectory.tool_runs.append(run)
        trajectory.messages.append(
            {
                "role": "tool",
                "tool_call_id": call["id"],
                "name": function["name"],
                "content": result.content,
            }
        )
