"""A simulated user, played by a model: the agent's message in, the user's reply out.

The model gets the conversation with swapped roles, and may have tools (a device of its own) whose
calls the agent never sees. It ends the conversation with `DONE`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tutti.tasks.agents.models import ChatModel
from tutti.tasks.agents.tools import ToolUnavailable
from tutti.tasks.benchmarks.errors import BenchmarkError
from tutti.tasks.benchmarks.world import Act, CallRefused, carry_out

DONE = "[DONE]"
BEGIN = "(The conversation begins. Say the first thing.)"
CUSTOMER = (
    "You are a customer who talks to a service agent. Your situation is below; it is all that you"
    " know. Say one thing at a time, in a sentence or two, in your own words; tell what is asked"
    " for, not all at once, and make nothing up. Do on your own device only what you are asked to"
    f" do. When all that you want is done, or you are handed over, or it cannot be done, say {DONE}"
    " and nothing else.\n\n"
)
MAX_CALLS = 10  # turns of tool calls before it must speak; beyond it the user says nothing


async def _nothing(name: str, arguments: dict[str, Any]) -> str:
    """Refuse a tool call of a user without tools; some models make one all the same."""
    raise CallRefused(f"there is no tool {name!r}")


class SimulatedUser:
    """The simulated user of one conversation."""

    def __init__(
        self,
        model: ChatModel | None,
        instructions: str,
        past: Sequence[Mapping[str, Any]] = (),
        schemas: Sequence[Mapping[str, Any]] = (),
        act: Act = _nothing,
    ) -> None:
        """`past`: earlier messages, from the agent's side. `act` answers the calls of `schemas`.
        Raises BenchmarkError without a model."""
        if model is None:
            raise BenchmarkError("a simulated user needs a model: the suite names none for it")
        self._model = model
        self._schemas, self._act = schemas, act
        self._messages: list[dict[str, Any]] = [{"role": "system", "content": instructions}]
        self._messages += _turned(past)
        self._step = 0
        self.done = False

    async def say(self, heard: str | None) -> str | None:
        """Return its next message after the agent's `heard` (None at the start); None when it is
        done. Raises the model's errors, and ToolUnavailable if it does not even begin, because an
        attempt without a conversation is void and not wrong."""
        if heard is not None:
            self._messages.append({"role": "user", "content": heard})
        elif self._messages[-1]["role"] != "user":
            self._messages.append({"role": "user", "content": BEGIN})
        for _ in range(MAX_CALLS):
            self._step += 1
            reply = await self._model.complete(self._messages, self._schemas, self._step)
            self._messages.append(reply.message)
            calls = reply.message.get("tool_calls") or ()
            if not calls:
                break
            for call in calls:
                self._messages.append(await self._called(call))
        words = reply.message["content"] or ""
        self.done = DONE in words or not words.strip()
        if self.done and heard is None:
            raise ToolUnavailable(f"the simulated user did not begin, it said {words[:80]!r}")
        return None if self.done else words

    async def _called(self, call: Mapping[str, Any]) -> dict[str, Any]:
        function = call["function"]
        result = await carry_out(self._act, self._schemas, function["name"], function["arguments"])
        return {"role": "tool", "tool_call_id": call["id"], "content": result.content}


def _turned(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the conversation with swapped roles, without calls and their results."""
    other = {"assistant": "user", "user": "assistant"}
    return [
        {"role": other[message["role"]], "content": message["content"]}
        for message in messages
        if message["role"] in other and message.get("content")
    ]
