"""Scripted endpoint that counts requests: chat completions, files and batches.

A script maps the name of a request (of the schema, tool or fenced block) to its responses in turn;
the last one repeats. A response is a JSON value, or a `Raw` reply with a fault.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
TOLD = re.compile(r"this schema \(([A-Za-z0-9_-]+)\)")


@dataclass(frozen=True)
class Raw:
    """Reply that is not a valid response."""

    text: str = ""
    finish: str = "stop"
    refusal: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0


@dataclass
class ScriptedEndpoint:
    """Requests and responses of the endpoint; `url` includes ``/v1``."""

    script: Mapping[str, Sequence[Any]]
    forms: Sequence[str] = ("response_format", "tool", "fenced_json")
    """The forms of answer that it supports."""
    answered: Counter[str] = field(default_factory=Counter)
    """Complete answers by request, which is what a provider charges for."""
    asked: list[tuple[str, dict[str, Any], dict[str, str]]] = field(default_factory=list)
    """(name, body, headers)"""
    held: asyncio.Event = field(default_factory=asyncio.Event)
    hold_after: int | None = None
    """After so many answers, later requests wait until `held` is set."""
    waiting: int = 0
    given: Counter[str] = field(default_factory=Counter)
    """Replies by name, whole answers or not."""
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    batch_end: str = "completed"
    batch_rows: int | None = None
    """So many rows of a batch are answered; None: all."""
    polls_before_end: int = 1
    url: str = ""
    usage: Mapping[str, int] | None = field(default_factory=lambda: USAGE)
    """What answers report; None: nothing."""

    def calls(self, name: str = "") -> int:
        """Return the number of requests with this name."""
        return sum(each[0] == name or not name for each in self.asked)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Respond with a chat completion."""
        body = await request.json()
        form, name = form_and_name(body)
        self.asked.append((name, body, {k.lower(): v for k, v in request.headers.items()}))
        if form not in self.forms:
            message = f"{form} is not supported: unknown field response_format or tools"
            return web.json_response({"error": {"message": message}}, status=400)
        if self.hold_after is not None and self.answered.total() >= self.hold_after:
            self.waiting += 1
            await self.held.wait()
            if request.transport is None or request.transport.is_closing():
                return web.Response()  # the client is gone: nothing is charged
        reply = self._next(name)
        if isinstance(reply, Raw) and reply.delay_s:
            await asyncio.sleep(reply.delay_s)
        if isinstance(reply, Raw) and reply.status != 200:
            error = {"error": {"message": reply.text or "no"}}
            return web.json_response(error, status=reply.status, headers=reply.headers)
        self.answered[json.dumps(body, sort_keys=True)] += 1
        return web.json_response(completion(reply, form) | {"usage": self.usage})

    def _next(self, name: str) -> Any:
        if name not in self.script:
            raise AssertionError(f"nobody scripted {name!r}")
        answers = self.script[name]
        self.given[name] += 1
        return answers[min(self.given[name], len(answers)) - 1]

    async def add_file(self, request: web.Request) -> web.Response:
        """Handle POST /v1/files."""
        form = await request.post()
        upload = form["file"]
        assert isinstance(upload, web.FileField)
        name = f"file-{len(self.files)}"
        self.files[name] = upload.file.read().decode()
        return web.json_response({"id": name, "object": "file", "purpose": "batch"})

    async def read_file(self, request: web.Request) -> web.Response:
        """Handle GET /v1/files/ID/content."""
        return web.Response(text=self.files[request.match_info["id"]])

    async def add_batch(self, request: web.Request) -> web.Response:
        """Handle POST /v1/batches."""
        given = await request.json()
        name = f"batch-{len(self.batches)}"
        self.batches[name] = given | {"id": name, "status": "in_progress", "polls": 0}
        return web.json_response(self.batches[name])

    async def list_batches(self, _: web.Request) -> web.Response:
        """Handle GET /v1/batches."""
        data = list(self.batches.values())
        return web.json_response({"object": "list", "data": data, "has_more": False})

    async def read_batch(self, request: web.Request) -> web.Response:
        """Handle GET /v1/batches/ID."""
        batch = self.batches[request.match_info["id"]]
        batch["polls"] += 1
        if batch["polls"] > self.polls_before_end and batch["status"] == "in_progress":
            self._end(batch)
        return web.json_response(batch)

    async def cancel_batch(self, request: web.Request) -> web.Response:
        """Handle POST /v1/batches/ID/cancel."""
        batch = self.batches[request.match_info["id"]]
        batch["status"] = "cancelled"
        return web.json_response(batch)

    def _end(self, batch: dict[str, Any]) -> None:
        rows = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        lines = []
        for row in rows[: self.batch_rows]:
            form, name = form_and_name(row["body"])
            self.asked.append((f"batch:{name}", row["body"], {}))
            self.answered[json.dumps(row["body"], sort_keys=True)] += 1
            reply = {"status_code": 200, "body": completion(self._next(name), form)}
            lines.append(json.dumps({"custom_id": row["custom_id"], "response": reply}))
        out = f"{batch['id']}-out"
        self.files[out] = "\n".join(reversed(lines))  # any order
        batch |= {"status": self.batch_end, "output_file_id": out if lines else None}


def form_and_name(body: Mapping[str, Any]) -> tuple[str, str]:
    """Return the requested response format and its name."""
    if "response_format" in body:
        return "response_format", str(body["response_format"]["json_schema"]["name"])
    if "tools" in body:
        return "tool", str(body["tools"][0]["function"]["name"])
    told = TOLD.search(body["messages"][-1]["content"])
    assert told is not None, "the schema is not told"
    return "fenced_json", told[1]


def completion(reply: Any, form: str) -> dict[str, Any]:
    """Return a reply in the format of OpenAI's API."""
    raw = reply if isinstance(reply, Raw) else Raw(json.dumps(reply))
    message: dict[str, Any] = {"role": "assistant", "content": raw.text}
    if form == "tool":
        call = {"id": "c", "type": "function", "function": {"name": "x", "arguments": raw.text}}
        message |= {"content": None, "tool_calls": [call]}
    elif form == "fenced_json" and not isinstance(reply, Raw):
        message["content"] = f"Here it is:\n```json\n{raw.text}\n```"
    if raw.refusal:
        message |= {"content": None, "refusal": raw.refusal}
    choice = {"index": 0, "message": message, "finish_reason": raw.finish}
    return {"id": "x", "object": "chat.completion", "choices": [choice], "usage": USAGE}


@asynccontextmanager
async def serving(endpoint: ScriptedEndpoint) -> AsyncIterator[ScriptedEndpoint]:
    """Run the endpoint on a loopback port."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", endpoint.chat)
    app.router.add_post("/v1/files", endpoint.add_file)
    app.router.add_get("/v1/files/{id}/content", endpoint.read_file)
    app.router.add_post("/v1/batches", endpoint.add_batch)
    app.router.add_get("/v1/batches", endpoint.list_batches)
    app.router.add_get("/v1/batches/{id}", endpoint.read_batch)
    app.router.add_post("/v1/batches/{id}/cancel", endpoint.cancel_batch)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    endpoint.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield endpoint
    finally:
        endpoint.held.set()
        await runner.cleanup()
