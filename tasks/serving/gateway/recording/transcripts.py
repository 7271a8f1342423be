"""Records conversations from growing prompts, storing each message once.

For agents that keep no record of their own: an unmodified agent is recorded when its base URL
points to the gateway.
"""

import math
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tutti.storage import Conversation, Home, Message, query

MAX_PROGRAMS = 10_000  # beyond it, the program silent for longest is forgotten; its next prompt
# is stored again in full
MAX_TOKEN_ID = 2**31  # the width of the column
Rows = dict[str, list[Mapping[str, Any]]]


class Transcripts:
    """The conversations of the programs behind one gateway; thread-safe."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._known: OrderedDict[str, Conversation] = OrderedDict()
        self._lock = threading.Lock()

    def __contains__(self, program: str) -> bool:
        return program in self._known

    def rows(
        self,
        call: Mapping[str, Any],
        prompt: Sequence[Message],
        answer: Message | None,
    ) -> Rows:
        """The row of `calls` with the spans of its prompt, and the new messages.

        Calls of one program must come in order, one after the other.
        """
        conversation = self._conversation(str(call["attempt_id"]), prompt)
        messages, spans = conversation.observe(str(call["call_id"]), prompt, answer)
        for message in messages:
            message["cell_id"] = call["cell_id"]
        return {"calls": [{**call, "prompt_spans": spans}], "messages": [*messages]}

    def forget(self, program: str) -> None:
        """Forget a program that will make no more calls."""
        with self._lock:
            self._known.pop(program, None)

    def _conversation(self, program: str, prompt: Sequence[Message]) -> Conversation:
        with self._lock:
            known = self._known.get(program)
            if known is not None:
                self._known.move_to_end(program)
                return known
        first = self._next_position(program) if began_before(prompt) else 0
        with self._lock:
            made = self._known[program] = Conversation(program, first)
            if len(self._known) > MAX_PROGRAMS:
                self._known.popitem(last=False)
        return made

    def _next_position(self, program: str) -> int:
        sql = "select max(position) + 1 as next from messages where attempt_id = $program"
        (row,) = query(sql, self._home, {"program": program})
        return int(row["next"] or 0)


def began_before(prompt: Sequence[Message]) -> bool:
    """Whether a program may have begun before this process did, given its first prompt here: then
    its next message position must be read from the store."""
    return any(message.get("role") == "assistant" for message in prompt)


def read_answer(objects: Iterable[Any]) -> "AnswerMessage":
    """The first choice of an answer: from its JSON, or assembled from its events."""
    answer = AnswerMessage()
    for said in objects:
        # The client got it unchanged; anything but a JSON object has no message.
        choices = said.get("choices") if isinstance(said, dict) else None
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, dict):
                answer.take(choice)
    return answer


class AnswerMessage:
    """The first choice of an answer, assembled from its message or its streamed deltas."""

    def __init__(self) -> None:
        self._role = "assistant"
        self._texts: dict[str, list[str]] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self.token_ids: list[int] | None = None
        self.logprobs: list[float] | None = None

    def take(self, choice: Mapping[str, Any]) -> None:
        """Add a choice of a complete answer or of one event."""
        if choice.get("index", 0) != 0:
            return
        self._take_tokens(choice)
        part = choice.get("message") or choice.get("delta")
        if not isinstance(part, dict):
            return
        for name in ("content", "reasoning_content", "reasoning"):
            if isinstance(text := part.get(name), str):
                self._texts.setdefault(name, []).append(text)
        calls = part.get("tool_calls")
        for place, call in enumerate(calls if isinstance(calls, list) else []):
            if isinstance(call, dict):
                index = call.get("index")
                self._take_call(call, index if isinstance(index, int) else place)

    def message(self) -> dict[str, Any] | None:
        """The answer so far as a chat message; None if nothing came."""
        if not self._texts and not self._calls:
            return None
        texts = {name: "".join(pieces) for name, pieces in self._texts.items()}
        calls = [self._calls[index] for index in sorted(self._calls)]
        return {"role": self._role, **texts} | ({"tool_calls": calls} if calls else {})

    def _take_tokens(self, choice: Mapping[str, Any]) -> None:
        """Collect token ids and log probabilities, if the engine sends them."""
        ids = choice.get("token_ids")
        if isinstance(ids, list) and all(type(x) is int and 0 <= x < MAX_TOKEN_ID for x in ids):
            self.token_ids = [*(self.token_ids or []), *ids]
        logprobs = choice.get("logprobs")
        content = logprobs.get("content") if isinstance(logprobs, dict) else None
        if isinstance(content, list):
            said = [each.get("logprob") if isinstance(each, dict) else None for each in content]
            self.logprobs = [*(self.logprobs or []), *map(_probability, said)]

    def _take_call(self, call: Mapping[str, Any], index: int) -> None:
        known = self._calls.setdefault(
            index, {"id": None, "type": "function", "function": {"name": "", "arguments": ""}}
        )
        known["id"] = call["id"] if isinstance(call.get("id"), str) else known["id"]
        function = call.get("function")
        for name in ("name", "arguments"):
            piece = function.get(name) if isinstance(function, dict) else None
            known["function"][name] += piece if isinstance(piece, str) else ""


def _probability(value: Any) -> float:
    """A log probability; NaN if the engine sends an invalid one."""
    return float(value) if isinstance(value, int | float) else math.nan
