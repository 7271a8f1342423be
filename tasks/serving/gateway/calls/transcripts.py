"""Records conversations from growing prompts, storing each message once.

For agents that keep no record of their own: an unmodified agent is recorded when its base URL
points to the gateway.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tutti.storage import Conversation, Home, KeptContext, LastUsed, Message, TokenHistories, query

MAX_BYTES = 512 * 2**20
"""Of all remembered messages; beyond it, the conversation unused for longest is forgotten, and its
next prompt is stored again in full."""
Rows = dict[str, list[dict[str, Any]]]


class Transcripts:
    """The conversations of the programs behind one gateway; thread-safe."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._known = LastUsed[Conversation](MAX_BYTES)
        """By program its own conversation, by `_thread_of` that of those whom its agent asks."""
        self.tokens = TokenHistories()
        """The token ids of programs, also of those that keep their messages themselves."""

    def __contains__(self, program: str) -> bool:
        return self._known.get(program) is not None

    def rows(
        self,
        call: dict[str, Any],
        prompt: Sequence[Message],
        answer: Message | None,
        kept: KeptContext | None = None,
    ) -> Rows:
        """The row of `calls`, which gets the spans of its prompt, and the new messages. Calls of
        one program must come in order, one after the other."""
        program, call_id = str(call["attempt_id"]), str(call["call_id"])
        if (conversation := self._known.get(program)) is None:
            first = self._next_position(program) if began_before(prompt, kept) else 0
            conversation = Conversation(program, first)
        messages, spans = conversation.observe(call_id, prompt, answer, kept, repeats=True)
        self._known.put(program, conversation)
        cell_id, sweep_id = call["cell_id"], call.get("sweep_id")
        for message in messages:
            message["cell_id"], message["sweep_id"] = cell_id, sweep_id
        call["prompt_spans"] = spans
        return {"calls": [call], "messages": messages}

    def auxiliary_rows(
        self,
        call: Mapping[str, Any],
        prompt: Sequence[Message],
        answer: Message | None,
        kept: KeptContext | None = None,
    ) -> Rows:
        """Like `rows`, for a call that an expert, a judge or a simulated user answers: its messages
        belong to a thread beside the program's own.

        The first call's id names the thread, so that positions are never reused: neither by another
        gateway, nor after the program was removed here.
        """
        program, call_id = str(call["attempt_id"]), str(call["call_id"])
        thread = self._known.get(_thread_of(program)) or Conversation(call_id)
        messages, spans = thread.observe(call_id, prompt, answer, kept)
        self._known.put(_thread_of(program), thread)
        name = thread.attempt_id
        for message in messages:
            message |= {"attempt_id": program, "thread": name, "cell_id": call["cell_id"]}
        row = {**call, "prompt_spans": spans, "prompt_thread": name}
        return {"calls": [row], "auxiliary_messages": messages}

    def forget(self, program: str) -> None:
        """Remove a program that will make no more calls."""
        self._known.forget(program)
        self._known.forget(_thread_of(program))
        self.tokens.forget(program)

    def restart(self, attempt_id: str) -> None:
        """Store the next prompt of a program in full: rows of an earlier one were lost."""
        self._known.forget(_thread_of(attempt_id))
        if (known := self._known.get(attempt_id)) is not None:
            known.restart()
        self.tokens.forget(attempt_id)

    def _next_position(self, program: str) -> int:
        sql = "select max(position) + 1 as next from messages where attempt_id = $program"
        (row,) = query(sql, self._home, {"program": program})
        return int(row["next"] or 0)


def _thread_of(program: str) -> str:
    return f"{program}\0"  # no program's own name has a NUL


def began_before(prompt: Sequence[Message], kept: KeptContext | None = None) -> bool:
    """Whether a program may have begun before this process did, given its first prompt here. If so,
    its next message position must be read from the store."""
    if kept is not None and kept.after is not None:
        return True
    return any(message.get("role") == "assistant" for message in prompt)
