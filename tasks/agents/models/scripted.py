"""Models without an engine: the oracle replays a known solution, the no-op model does nothing."""

import json

from tutti.tasks.agents.models.context import Message
from tutti.tasks.agents.models.model import Messages, Positions, Reply, Schemas
from tutti.tasks.agents.models.prompts import Oracle, ToolUse


class OracleModel:
    """Plays a family's oracle policy as a model: tool calls, then the boxed answer."""

    def __init__(self, oracle: Oracle, boxed_form: str) -> None:
        self._oracle = oracle
        self._boxed_form = boxed_form

    async def complete(
        self, messages: Messages, tools: Schemas, step: int, positions: Positions = None
    ) -> Reply:
        try:
            if messages[-1]["role"] == "tool":
                use = self._oracle.send(messages[-1]["content"])
            else:
                use = next(self._oracle)
        except StopIteration as finished:
            content = self._boxed_form.replace("ANSWER", str(finished.value))
            return Reply({"role": "assistant", "content": content}, "")
        except LookupError as error:
            return Reply({"role": "assistant", "content": f"not found: {error}"}, "")
        return Reply(_tool_call(use, step), "")


class NoOpModel:
    """Answers immediately with nothing: a task that it solves needs no tools and is rejected."""

    async def complete(
        self, messages: Messages, tools: Schemas, step: int, positions: Positions = None
    ) -> Reply:
        return Reply({"role": "assistant", "content": "\\boxed{}"}, "")


def _tool_call(use: ToolUse, step: int) -> Message:
    function = {"name": use.name, "arguments": json.dumps(use.arguments)}
    call = {"id": f"call_{step}", "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [call]}
