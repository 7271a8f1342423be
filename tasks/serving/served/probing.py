"""Checks whether a model can be measured here: small calls, each with a verdict and a remedy.

In: a gateway and an entry of the registry. Out: a `Probe` for each property.
"""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal

import aiohttp

from tutti.tasks.serving.registry.models import Model

TIMEOUT_S = 120.0
"""The first call of an engine on a CPU compiles kernels."""
MOST_SAID = 300
EVENT = re.compile(r"data:(?!\s*\[DONE\])")


@dataclass(frozen=True)
class ProbeResponse:
    """The model's response to a probe."""

    status: int
    """0 where nothing did."""
    body: dict[str, Any] = field(default_factory=dict)
    failure: str = ""
    """Why there is no answer, or what was said instead of one."""

    @property
    def message(self) -> dict[str, Any]:
        """The message of the first choice; empty if there is none."""
        choices = self.body.get("choices") or [{}]
        return choices[0].get("message") or {}

    @property
    def usage(self) -> dict[str, Any]:
        """The usage; empty if it is not reported."""
        return self.body.get("usage") or {}

    @property
    def cached(self) -> int | None:
        """Prompt tokens that came from a cache; None if not reported."""
        told = (self.usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        return told if isinstance(told, int) else None


class Asker:
    """Client of one model behind a gateway."""

    def __init__(self, session: aiohttp.ClientSession, gateway_url: str, model: str) -> None:
        self._session, self._model = session, model
        self._url = f"{gateway_url}/v1/chat/completions"

    async def ask(self, messages: list[dict[str, Any]], **fields: Any) -> ProbeResponse:
        """Make one call; a failure is a response, too. A stream is one body with its usage and the
        number of its `pieces`."""
        order = {"model": self._model, "messages": messages, "max_tokens": 64, **fields}
        try:
            async with self._session.post(self._url, json=order) as answer:
                text = await answer.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            return ProbeResponse(0, failure=f"{type(error).__name__}: {error}")
        if answer.status != 200:
            failure = f"HTTP {answer.status}: {_reason(text)}"
            return ProbeResponse(answer.status, failure=failure)
        try:
            body: Any = _of_stream(text) if "stream" in fields else json.loads(text)
        except ValueError:
            return ProbeResponse(200, failure=f"no JSON: {text[:MOST_SAID]}")
        if not isinstance(body, dict):
            return ProbeResponse(200, failure=f"HTTP 200: {_reason(text)}")
        return ProbeResponse(200, body)


def _of_stream(text: str) -> dict[str, Any]:
    events = [json.loads(line[5:]) for line in text.splitlines() if EVENT.match(line)]
    usage: Any = next((each["usage"] for each in reversed(events) if each.get("usage")), {})
    return {"usage": usage, "pieces": sum(bool(each.get("choices")) for each in events)}


def _reason(text: str) -> str:
    """The reason of a refusal: the message of its JSON, if it is an error in OpenAI's form."""
    try:
        decoded = json.loads(text)
    except ValueError:
        return text[:MOST_SAID]
    error = decoded.get("error") if isinstance(decoded, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return (message if isinstance(message, str) else text)[:MOST_SAID]


Status = Literal["ok", "warning", "failed"]

QUESTION = [{"role": "user", "content": "Say hello."}]
WEATHER_TOOL = "get_weather"
WEATHER = {
    "type": "function",
    "function": {
        "name": WEATHER_TOOL,
        "description": "The weather of a city now.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
UNOFFERED = f"only {WEATHER_TOOL} was offered"
WITH_TOOL = [{"role": "user", "content": "What is the weather in Oslo? Call the tool."}]
MARKS = ("<tool_call>", "<|python_tag|>", "[TOOL_CALLS]", '{"name"', "<function=")
"""How calls look that no parser has read."""
REPEATED = "The train to Bergen leaves at nine and arrives at four in the afternoon. "
CACHED_PROMPT_TOKENS, MOST_SENTENCE_TOKENS = 400, 80
"""Tokens of the prompt that is sent again; of `REPEATED`, where usage is not told: one a character.
"""


@dataclass(frozen=True)
class Probe:
    """The result for one property."""

    name: str
    status: Status
    """"warning": it can be measured, with a remark; "failed": not, or not as its entry says."""
    found: str
    mend: str = ""


async def probe_model(gateway_url: str, name: str, model: Model) -> list[Probe]:
    """Probe one model; the first failed call ends the probes."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        asker, probes = Asker(session, gateway_url, name), []
        async for probe in _probes(asker, model):
            probes.append(probe)
            if probe.name == "answers" and probe.status == "failed":
                break
        return probes


async def _probes(asker: Asker, model: Model) -> AsyncIterator[Probe]:
    said = await asker.ask(QUESTION)
    yield _answers(said)
    yield _usage(said)
    yield await _cache(asker, model, said)
    if model.tools and model.dialect == "openai":
        yield await _tools(asker)
    streamed = {"stream": True, "stream_options": {"include_usage": True}}
    yield _stream(await asker.ask(QUESTION, max_tokens=16, **streamed))
    yield await _limit(asker, model)
    if model.record_tokens:
        yield await _tokens(asker)


def _answers(said: ProbeResponse) -> Probe:
    if said.failure:
        mend = "see its key, served name and address (`tutti models --check`)"
        return Probe("answers", "failed", said.failure, mend)
    text = said.message.get("content") or ""
    thought = said.message.get("reasoning_content") or said.message.get("reasoning") or ""
    if text or thought:
        return Probe("answers", "ok", f"{len(text)} characters, {len(thought)} of reasoning")
    return Probe("answers", "warning", "an empty answer", "see its chat template")


def _usage(said: ProbeResponse) -> Probe:
    told = [said.usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
    if all(isinstance(count, int) and count > 0 for count in told):
        return Probe("usage", "ok", f"{told[0]} prompt tokens, {told[1]} of the answer")
    mend = "without it tokens and cost are unknown; see the server's settings"
    return Probe("usage", "failed", f"usage is {said.usage}", mend)


async def _cache(asker: Asker, model: Model, first: ProbeResponse) -> Probe:
    """Send a prompt of up to 400 tokens twice. Providers cache none below 1,024, so a miss at an
    endpoint is only a remark. `first` is the answer to `QUESTION`, from which the tokens of a
    sentence are counted, because a small vocabulary needs twice as many as a large one."""
    one = await asker.ask(_repeated(1), max_tokens=16)
    begins, longer = (each.usage.get("prompt_tokens") or 0 for each in (first, one))
    sentence = longer - begins if 0 < begins < longer else MOST_SENTENCE_TOKENS
    room = min(CACHED_PROMPT_TOKENS, model.context_tokens // 2) - begins
    prompt = _repeated(max(1, room // sentence))
    _, second = [await asker.ask(prompt, max_tokens=16) for _ in range(2)]
    if second.failure:
        return Probe("prefix cache", "failed", second.failure)
    if second.cached is None:
        mend = "vLLM: --enable-prompt-tokens-details; SGLang: --enable-cache-report"
        return Probe("prefix cache", "warning", "cached tokens are not told", mend)
    found = f"{second.cached} of {second.usage.get('prompt_tokens')} tokens of a prompt sent again"
    if second.cached:
        return Probe("prefix cache", "ok", found)
    mend = "see whether it has a cache (vLLM: enable-prefix-caching)"
    return Probe("prefix cache", "warning", found, mend)


def _repeated(times: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": REPEATED * times + "Say hello."}]


async def _tools(asker: Asker) -> Probe:
    said = await asker.ask(WITH_TOOL, tools=[WEATHER])
    name_it = "name `engine.tool_parser`, or `dialect` for calls that come as text"
    if said.failure:
        return Probe("tools", "failed", said.failure, name_it)
    calls = said.message.get("tool_calls") or []
    if not calls:
        text = said.message.get("content") or ""
        if any(mark in text for mark in MARKS):
            return Probe("tools", "failed", f"a call came as text: {text[:80]!r}", name_it)
        return Probe("tools", "warning", f"it made no call: {text[:80]!r}", "try your own tools")
    function = calls[0].get("function") or {}
    try:
        arguments = json.loads(function.get("arguments") or "")
    except ValueError:
        told = str(function.get("arguments"))[:80]
        return Probe("tools", "warning", f"arguments that are no JSON: {told!r}", name_it)
    back: list[dict[str, Any]] = [*WITH_TOOL, {**said.message, "role": "assistant"}]
    back.append({"role": "tool", "tool_call_id": calls[0].get("id", ""), "content": "rain, 4 C"})
    after = await asker.ask(back, tools=[WEATHER])
    if after.failure:
        return Probe("tools", "failed", f"the result was refused: {after.failure}", name_it)
    found = f"{function.get('name')}({arguments}), and its result was taken"
    if function.get("name") != WEATHER_TOOL:
        return Probe("tools", "warning", f"{found}; {UNOFFERED}", "try your own tools")
    return Probe("tools", "ok", found)


def _stream(said: ProbeResponse) -> Probe:
    if said.failure:
        return Probe("stream", "failed", said.failure)
    pieces = said.body["pieces"]
    if pieces < 2:
        return Probe("stream", "warning", f"{pieces} pieces", "times to the first token are wrong")
    if not said.usage:
        return Probe("stream", "warning", f"{pieces} pieces without usage", "see stream_options")
    return Probe("stream", "ok", f"{pieces} pieces, then usage")


async def _limit(asker: Asker, model: Model) -> Probe:
    """Request an answer longer than the context, which a server must refuse before it computes."""
    if not model.metrics and model.checkpoint is None:
        return Probe("context", "warning", "not asked: a provider would be paid for it")
    said = await asker.ask(QUESTION, max_tokens=model.context_tokens + 1)
    if said.status == 400 or "context" in said.failure:
        return Probe("context", "ok", f"more than {model.context_tokens:,} tokens are refused")
    mend = "its server has more context than `context_tokens` says; state it"
    return Probe("context", "warning", f"{model.context_tokens + 1:,} tokens are accepted", mend)


async def _tokens(asker: Asker) -> Probe:
    said = await asker.ask(QUESTION, logprobs=True, return_token_ids=True)
    choice = (said.body.get("choices") or [{}])[0]
    ids, logprobs = choice.get("token_ids"), (choice.get("logprobs") or {}).get("content")
    if said.failure or not logprobs:
        mend = "the server must give log probabilities (vLLM: max-logprobs is not 0)"
        return Probe("token ids", "failed", said.failure or "no log probabilities", mend)
    if not ids:
        return Probe("token ids", "failed", "no token ids", "training reads them; vLLM gives them")
    return Probe("token ids", "ok", f"{len(ids)} ids, {len(logprobs)} log probabilities")
