"""Parsing of conversations from every protocol: prompts and answers as OpenAI chat messages."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tutti.storage import KeptContext
from tutti.tasks.serving.gateway.protocols.chat import Answer, AnswerMessage, read_messages
from tutti.tasks.serving.gateway.protocols.messages import (
    MessagesAnswer,
    kept_thread,
    read_anthropic,
)
from tutti.tasks.serving.gateway.protocols.responses import (
    ResponsesAnswer,
    kept_context,
    read_input,
)

PromptReader = Callable[[Mapping[str, Any]], list[dict[str, Any]] | None]
ContextReader = Callable[[Mapping[str, Any], str | None], KeptContext | None]
PROMPTS: Mapping[str, PromptReader] = {"messages": read_anthropic, "responses": read_input}
"""By the path below /v1; all others are read as chat."""
CONTEXTS: Mapping[str, ContextReader] = {"messages": kept_thread, "responses": kept_context}
ANSWERS: Mapping[str, type[Answer]] = {"messages": MessagesAnswer, "responses": ResponsesAnswer}


def read_prompt(kind: str, body: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the messages of a request; None if it is not a valid conversation."""
    read = PROMPTS.get(kind)
    return read_messages(body) if read is None else read(body)


def read_answer(kind: str, objects: Iterable[Any]) -> Answer:
    """An answer, from its JSON or from its events."""
    answer = ANSWERS.get(kind, AnswerMessage)()
    for said in objects:
        if isinstance(said, dict):  # the client got it unchanged; anything else has no message
            answer.read(said)
    return answer


def read_context(
    kind: str, body: Mapping[str, Any], answer: Answer | None = None
) -> KeptContext | None:
    """Return how a call continues a context that the server keeps; None if there is none."""
    read = CONTEXTS.get(kind)
    if read is None:
        return None
    return read(body, answer.response_id if answer is not None else None)
