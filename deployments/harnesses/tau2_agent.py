"""The agent of an episode: tau2's own, with experts that may write a turn in its place.

In: tau2's arguments of an agent, the experts of ``TUTTI_TASK``. Out: messages for tau2's
orchestrator. An expert gets the same conversation and tau2's tools; its message, with its calls, is
the turn. The agent's own call of the expert, and calls beside it, are no part of the dialogue. A
call of an expert that is not there is answered to the model alone, which then tries again.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import litellm
from tau2.agent.llm_agent import LLMAgent
from tau2.data_model.message import AssistantMessage, Message, ToolCall, ToolMessage
from tau2.utils.llm_utils import generate

CALL_EXPERT, ARGUMENT = "call_expert", "expert"
INVALID_TURNS = 4  # in a row end the attempt, as in tutti's own loop
RETRIES = 2  # of a call that failed at an engine; an attempt anew would lose the whole dialogue


class AgentFailed(Exception):
    """The measured model, or an expert of its choice, cannot go on; no fault of the machinery."""

    def __init__(self, reason: str, message: str) -> None:
        """`reason` is one of tau2's reasons for the end of a dialogue."""
        super().__init__(message)
        self.reason = reason


def arguments(url: str, request: Mapping[str, Any], role: str | None = None) -> dict[str, Any]:
    """What tau2 gives LiteLLM for a model at `url`; `role`: of its calls, None for the agent's."""
    headers = {} if role is None else {"X-Tutti-Role": role}
    return {
        "api_base": url,
        "api_key": "none",
        "extra_headers": headers,
        # As they are: LiteLLM would change or refuse some by what it knows of a model's name.
        "extra_body": dict(request),
        "num_retries": RETRIES,
    }


class Agent(LLMAgent):
    """tau2's agent; `experts` by alias. It goes on until `is_late`."""

    def __init__(
        self,
        given: Mapping[str, Any],
        url: str,
        is_late: Callable[[], bool],
        experts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(**given)
        self._is_late = is_late
        self._url, self._experts = url, (experts or {}).get("experts", {})
        self._own_tools = self.tools
        if experts is not None:
            offered = SimpleNamespace(name=CALL_EXPERT, openai_schema=experts["tool"])
            self.tools = [*self.tools, offered]
        self.asked: Counter[str] = Counter()
        """How many turns each expert wrote, by alias."""

    def _generate_next_message(self, message: Any, state: Any) -> AssistantMessage:
        if self._is_late():
            raise AgentFailed("timeout", "the attempt's time is over")
        return self._valid(lambda: self._turn(message, state))

    def _turn(self, message: Any, state: Any) -> AssistantMessage:
        reply = super()._generate_next_message(message, state)
        history, more = state.system_messages + state.messages, list[Message]()
        for _ in range(INVALID_TURNS):
            call = next((c for c in reply.tool_calls or () if c.name == CALL_EXPERT), None)
            if call is None or CALL_EXPERT in {tool.name for tool in self._own_tools}:
                return reply
            try:
                return self._expert(call, history)
            except ValueError as error:
                more += [reply, *_refusals(reply, str(error))]
            except litellm.ContextWindowExceededError as error:
                more += [reply, *_refusals(reply, f"the expert cannot read so much: {error}"[:300])]
            reply = generate(
                model=self.llm, tools=self.tools, messages=history + more, **self.llm_args
            )
        raise AgentFailed("agent_error", f"{INVALID_TURNS} calls of experts that are not there")

    def _expert(self, call: ToolCall, history: list[Message]) -> AssistantMessage:
        """The expert's turn. Raises ValueError for a call that names none."""
        alias = call.arguments.get(ARGUMENT) if isinstance(call.arguments, dict) else None
        if not isinstance(alias, str):
            raise ValueError(
                f"{CALL_EXPERT} needs the argument {ARGUMENT!r}, the name of an expert"
            )
        if alias not in self._experts:
            known = ", ".join(self._experts)
            raise ValueError(f"{CALL_EXPERT} has no expert {alias!r}; there are: {known}")
        expert = self._experts[alias]
        asked = arguments(self._url, expert["request"], "expert")
        seed = {"seed": self.llm_args["seed"]} if "seed" in self.llm_args else {}
        model = f"openai/{expert['model']}"
        turn = generate(model=model, tools=self._own_tools, messages=history, **asked, **seed)
        self.asked[alias] += 1
        return turn

    @staticmethod
    def _valid(make: Any) -> AssistantMessage:
        """The message of `make`. Raises AgentFailed for one that no dialogue can have."""
        try:
            message = make()
        except json.JSONDecodeError as error:
            raise AgentFailed("agent_error", f"a call's arguments are not JSON: {error}") from error
        except litellm.ContextWindowExceededError as error:
            raise AgentFailed("context_window_exceeded", str(error)[:500]) from error
        if not message.has_content() and not message.is_tool_call():
            raise AgentFailed("agent_error", "an empty message")
        assert isinstance(message, AssistantMessage), "asked as the assistant"
        return message


def _refusals(reply: AssistantMessage, why: str) -> list[ToolMessage]:
    """An answer to each call of a message that was not carried out."""
    return [
        ToolMessage(id=call.id, role="tool", content=f"Error: {why}", error=True)
        for call in reply.tool_calls or ()
    ]
