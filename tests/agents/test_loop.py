"""The loop: every way an attempt can end has a status and a stop reason."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from tasks.agents.loop import Limits, Trajectory, run_attempt
from tasks.agents.model import ContextExceeded, Message, ModelCallFailed, Reply
from tasks.agents.toolbox import Toolbox, ToolResult, ToolUnavailable


class Script:
    """A model that plays messages in order; an exception in the list is raised."""

    def __init__(self, *replies: Message | Exception) -> None:
        self.replies = list(replies)
        self.seen: list[list[Message]] = []

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[Message], step: int
    ) -> Reply:
        self.seen.append(list(messages))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return Reply(reply, f"call-{step}", 10, 4, 3, held_s=0.5)


class Tools:
    """Tools that echo, slowly for "slow", and are away for "away"."""

    async def use(self, name: str, arguments: str) -> ToolResult:
        if name == "away":
            raise ToolUnavailable("search: refused")
        await asyncio.sleep(0.05 if name == "slow" else 0)
        now = datetime.now(UTC)
        return ToolResult(f"{name}({arguments})", "ok", now, now)


def call(*names: str) -> Message:
    calls = [
        {"id": f"id-{i}", "type": "function", "function": {"name": n, "arguments": "{}"}}
        for i, n in enumerate(names)
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def say(text: str) -> Message:
    return {"role": "assistant", "content": text}


def play(*replies: Message | Exception, **limits: Any) -> tuple[Trajectory, Script]:
    script = Script(*replies)
    tools = cast(Toolbox, Tools())
    return asyncio.run(run_attempt("q", script, tools, Limits(**limits))), script


def test_tools_then_an_answer() -> None:
    trajectory, script = play(call("slow", "quick"), say(r"\boxed{7}"))
    assert (trajectory.status, trajectory.stop_reason) == ("ok", "answered")
    assert trajectory.answer == "7" and trajectory.steps == 2
    results = [m["content"] for m in trajectory.messages if m["role"] == "tool"]
    assert results == ["slow({})", "quick({})"], "results keep the order of the calls"
    assert [m["tool_call_id"] for m in script.seen[1] if m["role"] == "tool"] == ["id-0", "id-1"]
    assert trajectory.prompt_tokens == 20 and trajectory.cached_tokens == 8
    assert trajectory.held_s == 1.0
    assert trajectory.call_ids == {2: "call-1", 5: "call-2"}


@pytest.mark.parametrize(
    ("replies", "status", "reason"),
    [
        ([say("no box")], "model_error", "no_answer"),
        ([call("quick")] * 3, "limit", "turns"),
        ([ContextExceeded("too long")], "limit", "context"),
        ([call("quick"), ModelCallFailed("HTTP 502")], "infra_error", "ModelCallFailed"),
        ([call("away")], "infra_error", "ToolUnavailable"),
    ],
)
def test_ways_to_end(replies: list[Message | Exception], status: str, reason: str) -> None:
    trajectory, _ = play(*replies, turns=3)
    assert (trajectory.status, trajectory.stop_reason) == (status, reason)
    assert trajectory.answer is None
    assert trajectory.ended_at >= trajectory.started_at


def test_time_held_by_the_gateway_is_not_working_time() -> None:
    """Half a second was held: more than this limit, and yet no reason to stop."""
    trajectory, _ = play(call("quick"), say(r"\boxed{1}"), working_s=0.4)
    assert trajectory.status == "ok"
    trajectory, _ = play(call("slow"), call("slow"), say("x"), working_s=-2.0)
    assert (trajectory.status, trajectory.stop_reason) == ("limit", "time")
