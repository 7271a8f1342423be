"""The gateway's HTTP application: proxy, holds, records.

A program is named by the header ``X-Program-Id``, by ``program_id`` or ``job_id`` in the body, or
by the path (``/p/<program>/v1/...``). Orders of the sweep: ``PUT /cell``, ``DELETE /cell``,
``POST /flush``, ``POST /programs/release``; ``GET /health`` and ``GET /programs`` show the state.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from storage import BufferedWriter, Catalog, StoreError
from storage import catalog as cat
from tasks.serving.engine import EngineAddress
from tasks.serving.gateway.call import Call, new_call
from tasks.serving.gateway.metrics import parse_metrics
from tasks.serving.gateway.policies import Policy, make_policy
from tasks.serving.gateway.transcripts import Transcripts
from tasks.serving.registry import Prices

SAMPLE_S = 1.0
METRICS_TIMEOUT_S = 5.0
UPSTREAM_TIMEOUT_S = 600.0
MAX_HOLD_S = 300.0  # then 503 with Retry-After: a client must never wait without an end
IDLE_LEASE_S = 120.0  # a program that neither calls nor releases for this long loses its place
MAX_BODY_BYTES = 32 * 2**20
TOKEN_FIELDS = {"return_token_ids": True, "logprobs": True}  # vLLM's words
HOP_HEADERS = frozenset(["connection", "keep-alive", "transfer-encoding", "content-length", "host"])


@dataclass
class Program:
    """One attempt as the gateway sees it."""

    calls_in_flight: int = 0
    last_seen: float = field(default_factory=time.monotonic)
    admitted: asyncio.Event = field(default_factory=asyncio.Event)


class Gateway:
    """State and handlers of one gateway in front of one engine."""

    def __init__(
        self,
        engine: EngineAddress,
        catalog: Catalog,
        prices: Prices,
        *,
        record_tokens: bool = False,
    ) -> None:
        self.engine = engine
        self.prices = prices
        self.record_tokens = record_tokens
        self.recorder = BufferedWriter(catalog)
        self.transcripts = Transcripts(catalog.home)
        self.policy: Policy = make_policy("passthrough", 1)
        self.policy_name = "passthrough"
        self.cell_id = ""
        self.concurrency: int | None = None
        self.programs: dict[str, Program] = {}

    def application(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.add_routes(
            [
                web.get("/health", self.health),
                web.get("/programs", self.show_programs),
                web.post("/programs/release", self.release_program),
                web.put("/cell", self.begin_cell),
                web.delete("/cell", self.end_cell),
                web.post("/flush", self.flush),
                web.route("*", "/p/{program}/v1/{path:.*}", self.proxy),
                web.route("*", "/v1/{path:.*}", self.proxy),
            ]
        )
        app.cleanup_ctx.append(self._background)
        return app

    async def _background(self, _: web.Application) -> AsyncIterator[None]:
        timeout = aiohttp.ClientTimeout(total=UPSTREAM_TIMEOUT_S)
        connector = aiohttp.TCPConnector(limit=0)
        self.client = aiohttp.ClientSession(connector=connector, timeout=timeout)
        sampling = asyncio.create_task(self._sample_for_ever())
        yield
        sampling.cancel()
        await asyncio.gather(sampling, return_exceptions=True)
        await self.client.close()
        await asyncio.to_thread(self.recorder.close)

    # Orders of the sweep

    async def begin_cell(self, request: web.Request) -> web.Response:
        """Start a cell: a fresh policy, a first sample of the engine's counters."""
        try:
            order = await request.json()
            cell_id, name = str(order["cell_id"]), str(order["policy"])
            policy = make_policy(name, int(order["limit"]))
            concurrency = order.get("concurrency")
            concurrency = None if concurrency is None else int(concurrency)
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            message = f"a cell needs `cell_id`, a known `policy` and a `limit`: {error!r}"
            return web.json_response({"error": message}, status=400)
        for program in self.programs.values():
            program.admitted.set()  # held calls of an abandoned cell must not wait for ever
        self.programs.clear()
        self.policy, self.policy_name, self.cell_id = policy, name, cell_id
        self.concurrency = concurrency
        await self._sample()
        return web.json_response({"cell_id": self.cell_id})

    async def end_cell(self, _: web.Request) -> web.Response:
        """End the cell: a last sample, everything committed."""
        await self._sample()
        self.cell_id, self.concurrency = "", None
        return await self._flushed()

    async def flush(self, _: web.Request) -> web.Response:
        """Commit what was recorded; 507 when the store cannot take it."""
        return await self._flushed()

    async def _flushed(self) -> web.Response:
        try:
            return web.json_response({"committed": await asyncio.to_thread(self.recorder.flush)})
        except StoreError as error:
            return web.json_response({"error": str(error)}, status=507)

    async def release_program(self, request: web.Request) -> web.Response:
        """A program is over: its place is free at once."""
        try:
            program = str((await request.json())["program_id"])
        except (ValueError, KeyError, TypeError):
            return web.json_response({"error": "the body must name `program_id`"}, status=400)
        return web.json_response({"program_id": program, "released": self._release(program)})

    def _release(self, program: str, reason: str = "release") -> bool:
        known = self.programs.pop(program, None)
        for following in self.policy.release(program):
            if following in self.programs:
                self.programs[following].admitted.set()
        if known is not None:
            known.admitted.set()  # a call still held goes on rather than waiting for nothing
            self._event(program, "release", reason)
        return known is not None

    # Views

    async def health(self, _: web.Request) -> web.Response:
        """What the gateway does and what it could not record."""
        held = sum(not program.admitted.is_set() for program in self.programs.values())
        return web.json_response(
            {
                "status": "ok",
                "policy": self.policy_name,
                "cell_id": self.cell_id,
                "programs": len(self.programs),
                "held": held,
                "recorded": self.recorder.committed,
                "unrecorded": self.recorder.dropped,
                "store_error": self.recorder.last_error,
            }
        )

    async def show_programs(self, _: web.Request) -> web.Response:
        """Every program: calls in flight, and whether it is held."""
        view = {
            name: {"in_flight": p.calls_in_flight, "held": not p.admitted.is_set()}
            for name, p in self.programs.items()
        }
        return web.json_response(view)

    # The proxy

    async def proxy(self, request: web.Request) -> web.StreamResponse:
        """Hold the call if the policy says so, forward it, record it."""
        path = request.match_info["path"]
        if request.method != "POST":
            return await self._forward_plain(request, path)
        raw = await request.read()
        try:
            body = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            return _refusal(400, f"the body is not JSON: {error}")
        if not isinstance(body, dict):
            return _refusal(400, "the body must be a JSON object")
        named = request.match_info.get("program")
        try:
            call = new_call(request.headers, named, body, self.cell_id)
        except ValueError as error:
            return _refusal(400, str(error))
        program = self.programs.setdefault(call.program, Program())
        program.calls_in_flight += 1
        try:
            if not await self._admit(call, program):
                call.http_status = 503
                return _refusal(503, f"held for {MAX_HOLD_S:.0f} s without a free place")
            return await self._forward(request, path, call)
        except TimeoutError:
            call.http_status = 504
            return _refusal(504, f"the engine did not answer in {UPSTREAM_TIMEOUT_S:.0f} s")
        except aiohttp.ClientError as error:
            call.http_status = 502
            return _refusal(502, f"the engine did not answer: {type(error).__name__}: {error}")
        except asyncio.CancelledError:
            call.status = "cancelled"
            self._event(call.program, "disconnect", "client went away")
            raise
        finally:
            program.calls_in_flight -= 1
            program.last_seen = time.monotonic()
            self._record(call)
            if call.anonymous:
                self._release(call.program, "its only call ended")

    async def _admit(self, call: Call, program: Program) -> bool:
        if not program.admitted.is_set():
            if self.policy.arrive(call.program):
                program.admitted.set()
            else:
                self._event(call.program, "hold", self.policy_name)
        try:
            await asyncio.wait_for(program.admitted.wait(), MAX_HOLD_S)
        except TimeoutError:
            self._give_up(call, program, "hold expired")
            self._event(call.program, "expire", f"held for {MAX_HOLD_S:.0f} s")
            return False
        except asyncio.CancelledError:
            self._give_up(call, program, "client went away while held")
            raise
        call.held_s = time.monotonic() - call.sent
        call.admitted_at = cat.now()
        return True

    def _give_up(self, call: Call, program: Program, reason: str) -> None:
        """A held call leaves; the program keeps its turn if another call of it still waits."""
        if program.calls_in_flight == 1:
            self._release(call.program, reason)

    async def _forward(self, request: web.Request, path: str, call: Call) -> web.StreamResponse:
        url = f"{self.engine.url}/v1/{path}"
        headers = {k: v for k, v in request.headers.items() if k.lower() not in HOP_HEADERS}
        body = call.body
        if self.record_tokens and path == "chat/completions":
            body = TOKEN_FIELDS | body  # what the client asks for itself stays
            call.records_tokens = True
        async with self.client.post(url, data=orjson.dumps(body), headers=headers) as answer:
            call.http_status = answer.status
            passed = {k: v for k, v in answer.headers.items() if k.lower() not in HOP_HEADERS}
            passed.pop("Content-Encoding", None)  # aiohttp has decoded it
            passed["X-Tutti-Held-S"] = f"{call.held_s:.6f}"
            if answer.content_type == "text/event-stream":
                return await self._stream(request, answer, passed, call)
            data = await answer.read()
            if answer.status == 200:
                call.note_answer(data)
                call.answered.append(data)
                call.status = "ok"
                passed["X-Tutti-Cost-Usd"] = f"{call.cost_usd(self.prices):.9f}"
            elif answer.status < 500 and answer.status != 429:
                call.status = "model_error"
            return web.Response(body=data, status=answer.status, headers=passed)

    async def _stream(
        self, request: web.Request, answer: Any, headers: dict[str, str], call: Call
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=headers)
        await response.prepare(request)
        tail = b""
        try:
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
                *lines, tail = (tail + chunk).split(b"\n")
                for line in lines:
                    _note_event(call, line)
        except (aiohttp.ClientError, TimeoutError):
            # Headers are out, so no error can be sent: a cut connection is the only honest end.
            if request.transport is not None:
                request.transport.abort()
            return response
        _note_event(call, tail)
        await response.write_eof()
        call.status = "ok" if answer.status == 200 else "infra_error"
        return response

    async def _forward_plain(self, request: web.Request, path: str) -> web.Response:
        url = f"{self.engine.url}/v1/{path}"
        try:
            async with self.client.request(request.method, url) as answer:
                data = await answer.read()
                kind = answer.content_type
                return web.Response(body=data, status=answer.status, content_type=kind)
        except (aiohttp.ClientError, TimeoutError) as error:
            return _refusal(502, f"the engine did not answer: {error!r}")

    # Records

    def _record(self, call: Call) -> None:
        load = {"policy": self.policy_name, "concurrency": self.concurrency}
        endpoint = self.engine.engine_id
        self.recorder.add_made(call.record(endpoint, self.prices, load, self.transcripts))

    def _event(self, program: str, event: str, reason: str) -> None:
        row = {"at": cat.now(), "cell_id": self.cell_id, "program_id": program}
        self.recorder.add("gateway_events", row | {"event": event, "reason": reason})

    async def _sample_for_ever(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_S)
            if self.cell_id:
                await self._sample()
            self._expire_idle()

    async def _sample(self) -> None:
        if not self.cell_id:
            return
        timeout = aiohttp.ClientTimeout(total=METRICS_TIMEOUT_S)
        try:
            async with self.client.get(f"{self.engine.url}/metrics", timeout=timeout) as answer:
                values = parse_metrics(await answer.text())
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            self._event("", "reject", f"no metrics: {type(error).__name__}: {error}"[:200])
            return
        at = cat.now()
        for name, value in values.items():
            row = {"cell_id": self.cell_id, "engine_id": self.engine.engine_id, "at": at}
            self.recorder.add("server_metrics", row | {"name": name, "value": value})

    def _expire_idle(self) -> None:
        oldest = time.monotonic() - IDLE_LEASE_S
        idle = [
            name
            for name, program in self.programs.items()
            if not program.calls_in_flight and program.last_seen < oldest
        ]
        for name in idle:
            self._release(name, "idle lease ended")


def _note_event(call: Call, line: bytes) -> None:
    if line.startswith(b"data: {"):
        call.note_first_token()
        call.answered.append(line[6:])
        if b'"usage"' in line or b'"finish_reason"' in line:
            call.note_answer(line[6:])


def _refusal(status: int, message: str) -> web.Response:
    headers = {"Retry-After": "5"} if status == 503 else None
    body = {"error": {"message": message, "type": "gateway_error", "code": status}}
    return web.json_response(body, status=status, headers=headers)
