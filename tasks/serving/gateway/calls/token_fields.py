"""Token ids and log probabilities: asked for by the gateway, and taken out of what a client sees.

A client gets the answer that it would get without the gateway. What it asked for itself stays.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from tutti.tasks.serving.gateway.calls.request import CallRequest

TOKEN_FIELDS = {"return_token_ids": True, "logprobs": True}  # vLLM's words
TOKEN_MARKS = (b"token_ids", b'"logprobs"')
EMPTY: tuple[Any, ...] = (None, "", [])


def ask_for_tokens(request: CallRequest) -> dict[str, Any]:
    """Make the engine send token ids and log probabilities; returns the fields added for it."""
    body = request.body
    added = {name: value for name, value in TOKEN_FIELDS.items() if not body.get(name)}
    if added:
        request.add(added)
    return added


def without_tokens(answer: Mapping[str, Any], added: Iterable[str]) -> dict[str, Any]:
    """An answer, or an event, without the fields that only the gateway asked for."""
    shown, added = dict(answer), frozenset(added)
    given = answer.get("choices")
    if not isinstance(given, list):
        return shown
    choices = [dict(c) if isinstance(c, dict) else c for c in given]
    for choice in choices:
        if isinstance(choice, dict) and "logprobs" in added and "logprobs" in choice:
            choice["logprobs"] = None  # as engines that are not asked write it
        if isinstance(choice, dict) and "return_token_ids" in added:
            choice.pop("token_ids", None)
    if "return_token_ids" in added:
        shown.pop("prompt_token_ids", None)
    return shown | {"choices": choices}


def whole_without_tokens(answer: Mapping[str, Any], added: Iterable[str]) -> bytes:
    """The body of a complete answer for the client."""
    return orjson.dumps(without_tokens(answer, added))


def event_without_tokens(added: Iterable[str]) -> Callable[[bytes], bytes]:
    """Makes events of a stream ready for the client; b"" for one that has nothing else."""
    fields = frozenset(added)

    def change(event: bytes) -> bytes:
        if not any(mark in event for mark in TOKEN_MARKS):
            return event
        lines = [_line(line, fields) for line in event.split(b"\n")]
        return b"" if None in lines else b"\n".join(line for line in lines if line is not None)

    return change


def _line(line: bytes, added: frozenset[str]) -> bytes | None:
    """A line of an event; None if the event says nothing without token ids."""
    if not line.startswith(b"data:"):
        return line
    try:
        said = orjson.loads(line[5:])
    except orjson.JSONDecodeError:
        return line
    if not isinstance(said, dict) or not isinstance(said.get("choices"), list):
        return line
    shown = without_tokens(said, added)
    return None if _is_hollow(shown) else b"data: " + orjson.dumps(shown)


def _is_hollow(event: Mapping[str, Any]) -> bool:
    """Whether it has choices, and none of them says anything: engines send such events only for
    their token ids."""
    if event.get("usage") or not event["choices"]:
        return False
    for choice in event["choices"]:
        if not isinstance(choice, dict) or choice.get("finish_reason") is not None:
            return False
        delta = choice.get("delta")
        if not isinstance(delta, dict) or choice.get("logprobs") is not None:
            return False
        if any(value not in EMPTY for value in delta.values()):
            return False
    return True
