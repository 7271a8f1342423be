"""Tests of the agent loop: every way an attempt can end has a status and a stop reason."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.agents.held import hold
from tutti.storage import Cost
from tutti.tasks.agents.loop import (
    NO_CALL,
    Agent,
    AttemptLimits,
    Trajectory,
    run_attempt,
)
from tutti.tasks.agents.models.client import CONNECTION
from tutti.tasks.agents.models.model import (
    ContextExceeded,
    Message,
    ModelCallFailed,
    Reply,
    note_wait,
)
from tutti.tasks.agents.tools.tool import Environment, ToolResult, ToolUnavailable, refused


class Script:
    """Model that plays messages in order; an exception in the list is raised."""

    def __init__(self, *replies: Message | Exception) -> None:
        self.replies = list(replies)
        self.seen: list[list[Message]] = []
        self.positions: list[Sequence[int] | None] = []

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        step: int,
        positions: Sequence[int] | None = None,
    ) -> Reply:
        self.seen.append(list(messages))
        self.positions.append(positions)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        hold(0.5)
        return Reply(reply, f"call-{step}", 10, 4, 3)


class Tools:
    """Tools that echo, slowly for "slow"; "away" does not respond, "unknown" is not one of the
    tools, and "full" calls a model whose context is full."""

    schemas: Sequence[dict[str, Any]] = ()

    async def use(self, name: str, arguments: str) -> ToolResult:
        if name == "away":
            raise ToolUnavailable("search: refused")
        if name == "full":
            raise ContextExceeded("too long")
        if name == "unknown":
            return refused("there is no such tool")
        await asyncio.sleep(0.05 if name == "slow" else 0)
        now = datetime.now(UTC)
        return ToolResult(f"{name}({arguments})", "ok", now, now, cost_usd=0.25)


def call(*names: str) -> Message:
    calls = [
        {"id": f"id-{i}", "type": "function", "function": {"name": n, "arguments": "{}"}}
        for i, n in enumerate(names)
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def say(text: str) -> Message:
    return {"role": "assistant", "content": text}


PLAIN = Agent()


def play(
    *replies: Message | Exception, agent: Agent = PLAIN, **limits: Any
) -> tuple[Trajectory, Script]:
    script = Script(*replies)
    prompt = [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]
    attempt = run_attempt(prompt, script, Environment(Tools()), AttemptLimits(**limits), agent)
    return asyncio.run(attempt), script


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
    ("replies", "status", "reason", "kind"),
    [
        ([say("no box")], "model_error", "no_answer", None),
        ([call("quick")] * 3, "limit", "turns", None),
        ([ContextExceeded("too long")], "limit", "context", "context_exceeded"),
        ([ModelCallFailed("no", 502)], "infra_error", "ModelCallFailed", "http_502"),
        ([ModelCallFailed("no", CONNECTION)], "infra_error", "ModelCallFailed", "connection"),
        ([ModelCallFailed("HTML")], "infra_error", "ModelCallFailed", "invalid_reply"),
        ([call("away")], "infra_error", "ToolUnavailable", "tool_unavailable"),
        ([call("full")], "infra_error", "ModelCallFailed", "tool_context_exceeded"),
        ([call("unknown")] * 4, "model_error", "malformed", None),
    ],
)
def test_ways_to_end(
    replies: list[Message | Exception], status: str, reason: str, kind: str | None
) -> None:
    """A failed attempt has a short error kind and its text."""
    trajectory, _ = play(*replies, turns=3, malformed=2)
    assert (trajectory.status, trajectory.stop_reason) == (status, reason)
    assert trajectory.error_type == kind
    assert (trajectory.error_message is None) == (kind is None)
    assert trajectory.answer is None
    assert trajectory.ended_at >= trajectory.started_at


def test_time_held_by_the_gateway_is_not_working_time() -> None:
    """The gateway held a call for half a second, which is longer than this time limit, and the
    attempt continues."""
    trajectory, _ = play(call("quick"), say(r"\boxed{1}"), working_s=0.4)
    assert trajectory.status == "ok"
    trajectory, _ = play(call("slow"), call("slow"), say("x"), working_s=-2.0)
    assert (trajectory.status, trajectory.stop_reason) == ("limit", "time")


def test_tokens_and_money_end_an_attempt() -> None:
    """Both limits are checked before each call; a call has 13 tokens, a tool costs 0.25 USD."""
    trajectory, _ = play(*[call("quick")] * 9, tokens=26)
    assert (trajectory.status, trajectory.stop_reason, trajectory.steps) == ("limit", "tokens", 2)
    trajectory, _ = play(*[call("quick")] * 9, cost_usd=0.7)
    assert (trajectory.status, trajectory.stop_reason, trajectory.steps) == ("limit", "money", 3)


@pytest.mark.parametrize(
    ("tokens", "steps"), [(1, 1), (13, 1), (14, 2), (25, 2), (26, 2), (27, 3), (39, 3), (40, 4)]
)
def test_the_tokens_that_end_an_attempt_are_the_limits(tokens: int, steps: int) -> None:
    """A call has 10 prompt and 3 completion tokens, each counted once: the last call is exactly the
    one that brings the sum to the limit."""
    trajectory, _ = play(*[call("quick")] * 9, tokens=tokens)
    assert (trajectory.status, trajectory.stop_reason, trajectory.steps) == (
        "limit",
        "tokens",
        steps,
    )
    assert 13 * (steps - 1) < tokens <= trajectory.prompt_tokens + trajectory.completion_tokens


def test_one_sound_call_forgives_the_malformed_before() -> None:
    """Only consecutive malformed turns count."""
    replies = [call("unknown"), call("quick"), call("unknown"), call("quick", "unknown")]
    trajectory, _ = play(*replies, say(r"\boxed{1}"), malformed=2)
    assert trajectory.status == "ok"


def test_calls_beyond_the_turns_are_answered_and_not_carried_out() -> None:
    """In single-tool mode, each call gets a result, but only the first is executed."""
    agent = Agent(calls_a_turn=1)
    trajectory, _ = play(call("quick", "away"), say(r"\boxed{1}"), agent=agent)
    told = [m["content"] for m in trajectory.messages if m["role"] == "tool"]
    assert told == ["quick({})", "error: 1 call a turn; this one was not carried out"]


def test_calls_in_text_are_carried_out() -> None:
    """This is for endpoints without a parser; unreadable calls are reported to the model and are
    not answers."""
    written = [
        say('I look. <tool_call>{"name": "quick", "arguments": {"a": 1}}</tool_call>'),
        say("<tool_call>{quick}</tool_call>"),
        say(r"\boxed{3}"),
    ]
    trajectory, script = play(*written, agent=Agent(dialect="hermes"))
    assert trajectory.status == "ok" and trajectory.steps == 3
    first = trajectory.messages[2]
    assert (first["content"], first["tool_calls"][0]["id"]) == ("I look.", "call-1-0")
    assert trajectory.messages[3]["content"] == 'quick({"a": 1})'
    assert script.seen[2][-1]["role"] == "user" and "not JSON" in script.seen[2][-1]["content"]


def test_the_ledger_is_part_of_what_is_stored() -> None:
    """The model reads the ledger at the end of its prompt, and it is stored in the trajectory."""
    trajectory, script = play(call("quick", "unknown"), say(r"\boxed{1}"), agent=Agent(ledger=True))
    last = script.seen[1][-1]["content"]
    assert last == trajectory.messages[-2]["content"]
    assert "tried: quick 1x, unknown 1x. spent: 1 of 8 turns, 13 tokens" in last
    assert "failed: unknown {}: error" in last


@pytest.mark.parametrize(("usd", "told"), [(0.25, "0.25 of 1 USD"), (None, "at least 0 of 1 USD")])
def test_the_ledger_tells_no_exact_sum_of_unknown_costs(usd: float | None, told: str) -> None:
    class Priced(Tools):
        async def use(self, name: str, arguments: str) -> ToolResult:
            return replace(await super().use(name, arguments), cost_usd=usd)

    script = Script(call("quick"), say("7"))
    limits, agent = AttemptLimits(cost_usd=1), Agent(ledger=True)
    prompt = [{"role": "user", "content": "q"}]
    asyncio.run(run_attempt(prompt, script, Environment(Priced()), limits, agent))
    assert f"tokens, {told}" in script.seen[1][-1]["content"]


def test_a_long_conversation_is_cut_by_whole_turns() -> None:
    """The prompt lists its positions; the trajectory keeps all messages."""
    agent = Agent(context_tokens=100)
    trajectory, script = play(*[call("quick")] * 5, say(r"\boxed{1}"), agent=agent)
    assert trajectory.status == "ok" and len(trajectory.messages) == 13
    assert script.positions[0] is None
    assert list(script.positions[-1] or ()) == [0, 1, 10, 11]


def test_only_the_endpoint_says_that_a_prompt_is_too_long() -> None:
    """The messages that must stay are sent, whatever their estimated length."""
    replies: list[Message | Exception] = [call("quick"), ContextExceeded("too long")]
    trajectory, script = play(*replies, agent=Agent(context_tokens=10))
    assert (trajectory.status, trajectory.stop_reason) == ("limit", "context")
    assert [len(prompt) for prompt in script.seen] == [2, 4]


class Partner:
    """Partner that says lines in turn, then None; an exception in the list is raised."""

    def __init__(self, *lines: str | Exception | None, over_after: int = 99) -> None:
        self.lines = list(lines)
        self.heard: list[str] = []
        self.turns, self.over_after = 0, over_after

    async def begin(self) -> str | None:
        return self._next()

    async def reply(self, said: str) -> str | None:
        self.heard.append(said)
        return self._next()

    def over(self) -> bool:
        self.turns += 1
        return self.turns >= self.over_after

    def _next(self) -> str | None:
        line = self.lines.pop(0) if self.lines else None
        if isinstance(line, Exception):
            raise line
        return line


def talk(
    partner: Partner, *replies: Message | Exception, **limits: Any
) -> tuple[Trajectory, Script]:
    script = Script(*replies)
    prompt = [{"role": "system", "content": "s"}]
    agent = Agent(read_answer=lambda text: text or None)
    environment = Environment(Tools(), partner)
    work = run_attempt(prompt, script, environment, AttemptLimits(**limits), agent)
    return asyncio.run(work), script


def test_a_message_without_calls_is_said_to_the_partner() -> None:
    """The dialogue goes on until the partner returns None; the agent's last message is its
    answer."""
    partner = Partner("hello", "please", None)
    done, script = talk(partner, say("how can I help?"), call("quick"), say("done"))
    assert (done.status, done.stop_reason, done.answer) == ("ok", "answered", "done")
    roles = [message["role"] for message in done.messages]
    assert roles == ["system", "user", "assistant", "user", "assistant", "tool", "assistant"]
    assert partner.heard == ["how can I help?", "done"]
    assert script.seen[0][-1] == {"role": "user", "content": "hello"}


@pytest.mark.parametrize(
    ("partner", "status", "reason"),
    [
        (Partner("a", *["b"] * 9), "limit", "turns"),
        (Partner("a", over_after=2), "ok", "answered"),
        (Partner(ModelCallFailed("HTTP 502")), "infra_error", "ModelCallFailed"),
        (Partner("a", ContextExceeded("long")), "infra_error", "ModelCallFailed"),
        (Partner("a", ToolUnavailable("gone")), "infra_error", "ToolUnavailable"),
    ],
)
def test_ways_a_dialogue_ends(partner: Partner, status: str, reason: str) -> None:
    """A failure of the partner, including a full context, is never the agent's limit or a wrong
    answer."""
    done, _ = talk(partner, *[say("x")] * 9, turns=3)
    assert (done.status, done.stop_reason) == (status, reason)


def test_to_talk_is_no_malformed_turn() -> None:
    """A message without calls is not malformed in a dialogue; only consecutive malformed turns end
    it."""
    replies = [call("unknown"), say("hm"), call("unknown"), say("done")]
    done, _ = talk(Partner("a", "b", None), *replies, malformed=2)
    assert (done.status, done.stop_reason) == ("ok", "answered")


def test_a_slow_partner_takes_none_of_the_agents_time() -> None:
    """The partner's seconds are counted separately."""

    class Slow(Partner):
        async def reply(self, said: str) -> str | None:
            await asyncio.sleep(0.3)
            return await super().reply(said)

    done, _ = talk(Slow("a", "b", None), say("x"), say("y"), working_s=0.5)
    assert done.status == "ok" and 0.6 <= done.partner_s <= done.seconds


def test_a_tool_may_have_the_last_word() -> None:
    """A tool may write the final message in the model's place; the time for which the gateway held
    the tool's calls is not working time."""

    class Final(Tools):
        async def use(self, name: str, arguments: str) -> ToolResult:
            result = await super().use(name, arguments)
            note_wait(0.0, 2.0)  # at the same time as the other call's
            return replace(result, final=r"so \boxed{9}")

    script, prompt = Script(call("quick", "quick")), [{"role": "user", "content": "q"}]
    done = asyncio.run(run_attempt(prompt, script, Environment(Final()), AttemptLimits()))
    assert (done.status, done.answer, done.held_s) == ("ok", "9", 2.5)
    assert [m["role"] for m in done.messages] == ["user", "assistant", "tool", "tool", "assistant"]
    assert list(done.call_ids) == [1]


def test_prompts_can_be_made_anew_each_turn() -> None:
    """Each prompt is the instructions and the newest text; a message without a call is reported as
    an error."""
    told: list[list[str]] = []

    def rebuild(tokens: Callable[[str], float], errors: Sequence[str]) -> str:
        told.append(list(errors))
        return f"turn {len(told)}, {tokens('abc') > 0}"

    replies = [call("quick"), say("hm"), say("hm")]
    done, script = play(*replies, agent=Agent(rebuild=rebuild), malformed=2)
    assert (done.status, done.stop_reason) == ("model_error", "malformed")
    assert told == [[], [NO_CALL], [NO_CALL]]
    assert [[m["content"] for m in prompt] for prompt in script.seen] == [
        ["s", "q"],
        ["s", "turn 1, True"],
        ["s", "turn 2, True"],
    ]
    assert script.positions == [None, [0, 4], [0, 6]]


def test_an_attempts_cost_of_which_a_part_is_unknown_is_unknown() -> None:
    assert Trajectory(cost=Cost.of([0.5, None])).cost_usd is None
