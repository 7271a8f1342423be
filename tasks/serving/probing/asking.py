"""Ask a model through its gateway, which adds the key and the entry's fields."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

import aiohttp

TIMEOUT_S = 120.0
"""The first call of an engine on a CPU compiles kernels."""
MOST_SAID = 300
EVENT = re.compile(r"data:(?!\s*\[DONE\])")


@dataclass(frozen=True)
class ProbeResponse:
    """What came back."""

    status: int
    """0 where nothing did."""
    body: dict[str, Any] = field(default_factory=dict)
    failure: str = ""
    """Why there is no answer, or what was said instead of one."""

    @property
    def message(self) -> dict[str, Any]:
        """The message of the first choice; empty where there is none."""
        choices = self.body.get("choices") or [{}]
        return choices[0].get("message") or {}

    @property
    def usage(self) -> dict[str, Any]:
        """The usage; empty where it is not told."""
        return self.body.get("usage") or {}

    @property
    def cached(self) -> int | None:
        """Prompt tokens that came from a cache; None where it is not told."""
        told = (self.usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        return told if isinstance(told, int) else None


class Asker:
    """One model behind a gateway."""

    def __init__(self, session: aiohttp.ClientSession, gateway_url: str, model: str) -> None:
        self._session, self._model = session, model
        self._url = f"{gateway_url}/v1/chat/completions"

    async def ask(self, messages: list[dict[str, Any]], **fields: Any) -> ProbeResponse:
        """One call. No exception: a failure is an answer, too."""
        body = {"model": self._model, "messages": messages, "max_tokens": 64, **fields}
        try:
            async with self._session.post(self._url, json=body) as response:
                text = await response.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            return ProbeResponse(0, failure=f"{type(error).__name__}: {error}")
        try:
            decoded = json.loads(text)
        except ValueError:
            return ProbeResponse(response.status, failure=f"no JSON: {text[:MOST_SAID]}")
        if response.status != 200 or not isinstance(decoded, dict):
            return ProbeResponse(
                response.status, failure=f"HTTP {response.status}: {_reason(text)}"
            )
        return ProbeResponse(response.status, decoded)

    async def stream(self, messages: list[dict[str, Any]]) -> tuple[int, ProbeResponse]:
        """One streamed call: how many pieces came, and its last usage."""
        body = {"model": self._model, "messages": messages, "max_tokens": 16, "stream": True}
        body["stream_options"] = {"include_usage": True}
        try:
            async with self._session.post(self._url, json=body) as response:
                text = await response.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            return 0, ProbeResponse(0, failure=f"{type(error).__name__}: {error}")
        if response.status != 200:
            return 0, ProbeResponse(
                response.status, failure=f"HTTP {response.status}: {_reason(text)}"
            )
        try:
            events = [json.loads(line[5:]) for line in text.splitlines() if EVENT.match(line)]
        except ValueError as error:
            return 0, ProbeResponse(200, failure=f"an event that is no JSON: {error}")
        usage: dict[str, Any] = next(
            (each["usage"] for each in reversed(events) if each.get("usage")), {}
        )
        return sum(bool(each.get("choices")) for each in events), ProbeResponse(
            200, {"usage": usage}
        )


def _reason(text: str) -> str:
    """What a refusal says: the message of its JSON, where it is an error as OpenAI's."""
    try:
        decoded = json.loads(text)
    except ValueError:
        return text[:MOST_SAID]
    error = decoded.get("error") if isinstance(decoded, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return (message if isinstance(message, str) else text)[:MOST_SAID]
