"""HTTP side of an engine without a model: sends the responses of a test and records requests."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web
from aiohttp.test_utils import BaseTestServer

from tutti.tasks.sweeps.plan.deployment import QUESTION

METRICS = """\
# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 128.0
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 1e+03
python_info{version="3.11"} 1.0
"""
USAGE = {
    "prompt_tokens": 120,
    "completion_tokens": 30,
    "total_tokens": 150,
    "prompt_tokens_details": {"cached_tokens": 96},
}
Reply = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]


def completion(content: str, usage: dict[str, Any] = USAGE, **message: Any) -> dict[str, Any]:
    """Return a chat completion in vLLM's format; `message` are additional fields of it."""
    message = {"role": "assistant", "content": content} | message
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage}


def is_first_call(body: Mapping[str, Any]) -> bool:
    """Return whether a request is the one that a sweep makes before it measures."""
    return bool(body["messages"] == [QUESTION])


class EngineDouble:
    """Fake engine; a test may replace `reply`, and `requests` are (headers, body) as received."""

    server: BaseTestServer

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.metrics = METRICS
        self.reply: Reply = self.answer
        self.gate = asyncio.Event()  # answers wait for it
        self.gate.set()

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/metrics", self._metrics)
        return app

    async def answer(self, _: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response(completion("hi"))

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        self.requests.append((dict(request.headers), body))
        await self.gate.wait()
        return await self.reply(request, body)

    async def _models(self, _: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m"}]})

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(text=self.metrics)
