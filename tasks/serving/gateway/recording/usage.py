"""Reads usage and finish reason from every protocol: OpenAI's chat, completions, responses and
embeddings, Anthropic's messages; from complete answers and from events.

If an engine sends usage with every event, the last one is right, so later values win.
"""

import json
from collections.abc import Mapping
from typing import Any

import orjson

from tutti.tasks.serving.scheduling import Usage

MAX_TOKENS = 2**40
LARGE_BYTES, USAGE, USAGE_BYTES = 2**20, b'"usage":', 2**14
BEGINNINGS = ("message_start", "response.created", "response.in_progress")
"""Events before the first token: what they count of the completion is a placeholder."""


class ReportedUsage:
    """Usage and finish reason that an answer has reported so far."""

    __slots__ = ("cached", "completion", "failed", "finish_reason", "prompt")

    def __init__(self) -> None:
        self.prompt: int | None = None
        self.completion: int | None = None
        self.cached: int | None = None
        self.finish_reason: str | None = None
        self.failed = False
        """Whether the answer reported an error in its body although its status was 200."""

    def read(self, data: bytes) -> Any:
        """Read an answer or an event and return it; None, without effect, if it is not a JSON
        object."""
        try:
            answer = orjson.loads(data)
        except orjson.JSONDecodeError:
            return None
        if not isinstance(answer, dict):
            return None
        self.take(answer)
        return answer

    def take(self, answer: Mapping[str, Any]) -> None:
        """Take the usage of a parsed answer or event."""
        self.failed = self.failed or bool(answer.get("error"))
        # Events of the responses API and of Anthropic's nest the object that has the usage.
        before, response = self.completion, answer.get("response")
        for inner in (response, answer.get("message"), answer):
            if inner and isinstance(inner, dict) and isinstance(usage := inner.get("usage"), dict):
                self._take_usage(usage)
        if answer.get("type") in BEGINNINGS:
            self.completion = before
        choices = answer.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            reason = choice.get("finish_reason") if isinstance(choice, dict) else None
            self.finish_reason = str(reason) if reason else self.finish_reason
        for inner in (answer, answer.get("delta"), response):
            if inner and isinstance(inner, dict):
                reason = inner.get("stop_reason") or inner.get("finish_reason") or _ended(inner)
                self.finish_reason = str(reason) if reason else self.finish_reason

    def _take_usage(self, usage: Mapping[str, Any]) -> None:
        prompt = _count(usage.get("prompt_tokens"))
        if prompt is None and (prompt := _count(usage.get("input_tokens"))) is not None:
            # Anthropic counts tokens read from or written to its cache apart from the input.
            read = _count(usage.get("cache_read_input_tokens"))
            made = _count(usage.get("cache_creation_input_tokens"))
            prompt += (read or 0) + (made or 0)
            self.cached = read if read is not None else self.cached
        self.prompt = prompt if prompt is not None else self.prompt
        for name in ("completion_tokens", "output_tokens"):
            if (value := _count(usage.get(name))) is not None:
                self.completion = value
        for name in ("prompt_tokens_details", "input_tokens_details"):
            if name in usage:  # the field is null if an engine found nothing
                details = usage[name]
                found = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
                self.cached = found or 0

    @property
    def usage(self) -> Usage | None:
        """Usage for the ledger; None if none was reported."""
        if self.prompt is None:
            return None
        return Usage(self.prompt, self.completion or 0, self.cached)


def _ended(response: Mapping[str, Any]) -> Any:
    """Why a response of the responses API ended, in its own terms; None while it is in progress."""
    if response.get("object") != "response":
        return None
    details = response.get("incomplete_details")
    status = response.get("status")
    if isinstance(details, Mapping) and details.get("reason"):
        return details["reason"]
    return status if status in ("completed", "incomplete", "failed", "cancelled") else None


def _count(value: Any) -> int | None:
    """A plausible number of tokens that fits a table's column."""
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else None


def usage_of_large(answer: bytes) -> dict[str, Any]:
    """The usage of an answer that is too large to be parsed on the event loop, as an answer of its
    own; empty if it is small, or reports none."""
    if len(answer) <= LARGE_BYTES or (at := answer.rfind(USAGE)) < 0:
        return {}
    try:
        start = answer[at : at + USAGE_BYTES].removeprefix(USAGE).decode(errors="replace").lstrip()
        usage, _ = json.JSONDecoder().raw_decode(start)
    except ValueError:
        return {}
    return {"usage": usage} if isinstance(usage, dict) else {}


def usage_only(event: bytes) -> bool:
    """Whether an event holds usage and no choice."""
    data = event.strip().removeprefix(b"data:").strip()
    if b'"usage"' not in data:
        return False
    try:
        parsed = orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return isinstance(parsed, dict) and parsed.get("choices") == [] and bool(parsed.get("usage"))
