"""The gateway: accepts requests, holds and forwards them, and records every call.

In: HTTP. Out: HTTP, and rows of `calls`, `messages`, `gateway_events` and `server_metrics`.
Run: ``python -m tutti.tasks.serving.gateway --help``.
"""

import asyncio
import time
from functools import cached_property
from urllib.parse import urlsplit

from tutti.tasks.serving.gateway import views
from tutti.tasks.serving.gateway.admin_api import AdminApi
from tutti.tasks.serving.gateway.calls.access import Key
from tutti.tasks.serving.gateway.calls.estimate import chain_of, common_share
from tutti.tasks.serving.gateway.calls.proxied_call import CallState, ProxiedCall
from tutti.tasks.serving.gateway.calls.request import read_large, read_request
from tutti.tasks.serving.gateway.calls.routes import (
    BadRequest,
    ModelRoute,
    Permission,
    RequestScreen,
)
from tutti.tasks.serving.gateway.calls.unscheduled import forward
from tutti.tasks.serving.gateway.core import GatewayCore
from tutti.tasks.serving.gateway.endpoints.endpoint import EndpointConfig
from tutti.tasks.serving.gateway.endpoints.journal import FLUSH_S
from tutti.tasks.serving.scheduling import ReasonCode, reasons
from tutti.tasks.serving.wire.connection import ServerLimits
from tutti.tasks.serving.wire.exchange import LARGE_BYTES, Exchange
from tutti.tasks.serving.wire.screen import AccessDenied, answer, refusal, refuse
from tutti.tasks.serving.wire.server import Server

ROUND_S = 1.0
CHECKED_AT_ONCE = 256


class Gateway(GatewayCore):
    """One gateway: its server, pools, access rules and records."""

    @cached_property
    def server(self) -> Server:
        screen = RequestScreen(self.access, AdminApi(self).routes(), self.count)
        limits = ServerLimits(body_bytes=self.settings.body_mib * 2**20)
        return Server(self.handle, limits, screen)

    async def start(self, host: str, port: int, endpoints: list[EndpointConfig]) -> int:
        """Start to listen and add the endpoints; return the port. Raises OSError, ValueError."""
        self.access.check_host(host)
        await asyncio.to_thread(self.recording.programs.open, self.pools.living)
        for config in endpoints:
            self.targets.list_host(urlsplit(config.url).hostname or "")
            self.pools.add(config)
        self.pools.restore()
        self.spawn(self._rounds())
        self.spawn(self.pulse.beat())
        self.spawn(self.gpus.watch())
        return await self.server.listen(host, port)

    async def stop(self, grace_s: float = 5.0) -> None:
        """Refuse held calls, wait up to `grace_s` for running ones, commit the records."""
        self.server.closing = True
        for proxied in list(self.in_flight.values()):
            if proxied.state is CallState.HELD:
                wait, text = [(b"Retry-After", b"2")], "the gateway is stopping; try again"
                proxied.refuse(503, text, wait, ReasonCode.STOPPING)
        await self.server.close(grace_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.pools.close()
        for pool in self.pools.by_name.values():
            if pool.wake is not None:
                pool.wake.cancel()
        if self.journal is not None:
            self.journal.close()
        self.recording.catch_up()
        self.recording.programs.end_all()
        await asyncio.to_thread(self.recording.close)

    def handle(self, exchange: Exchange) -> None:
        """Handle an authorized request: a model call, or a request to the gateway itself."""
        allowed: Permission = exchange.permission
        try:
            if len(exchange.body) > LARGE_BYTES and exchange.parsed is None:
                self.spawn(self._parse_large(exchange))
            elif allowed.handler is not None:
                allowed.handler(exchange)
            elif allowed.route is not None and allowed.route.is_call:
                self._call(exchange, allowed.key, allowed.route)
            elif allowed.route is not None:
                self.spawn(forward(self.pools, exchange, allowed.route, self.settings.upstream_s))
        except AccessDenied as denied:
            if not isinstance(denied, BadRequest):
                self.count("denied")
            refuse(exchange, denied)

    async def _parse_large(self, exchange: Exchange) -> None:
        try:
            async with self._parsing:
                if not exchange.gone:
                    exchange.parsed = await read_large(exchange.body)
                    self.handle(exchange)
        except BadRequest as error:
            refuse(exchange, error)
        except Exception:  # without this the request would get no answer
            answer(exchange, 500, refusal(500, "the gateway failed"))
            raise

    def _call(self, exchange: Exchange, key: Key, route: ModelRoute) -> None:
        request = read_request(exchange, route, key, self.cell_id)
        self.access.check_budget(key)
        try:
            pool = self.pools.of_model(request.model)
        except LookupError as error:
            raise AccessDenied(400 if self.pools.by_name else 503, str(error)) from None
        if request.call_id in self.in_flight:
            raise AccessDenied(409, f"call {request.call_id!r} is running; use another id")
        ledger = pool.scheduler.ledger
        if len(ledger.waiting) >= self.settings.max_held:
            self.count("turned_away")
            refused = refusal(503, "too many calls are held; try again")
            answer(exchange, 503, refused, [(b"Retry-After", b"5")])
            return
        program = ledger.programs.get(request.program)
        key.check_owner(program)
        if request.has_call_id and not self.call_ids.take(request.call_id):
            raise AccessDenied(409, f"call id {request.call_id!r} was used before; use another id")
        proxied = ProxiedCall(self, pool, exchange, request, key)
        proxied.record.concurrency = self.concurrency
        self.in_flight[request.call_id] = proxied
        exchange.on_gone = proxied.gone
        began = time.perf_counter()
        chain = chain_of(request.raw)
        prompt, common = self.sizes.estimate(program, request), common_share(program, chain)
        proxied.chain = chain
        # The scheduler may admit the call at once and then look it up by its id.
        call, admitted = pool.scheduler.arrive(
            request.program,
            request.call_id,
            prompt,
            request.output_tokens,
            proxied.record.sent,
            key.name,
            common,
        )
        self.pulse.decided(time.perf_counter() - began)
        proxied.call, request.step = call, self.pools.step_of(call.program, request.step)
        self.pools.share_clock(call.program)
        self.send_admitted(pool, admitted)
        if call.engine is None and proxied.state is CallState.HELD:
            self.set_wake(pool)
        for name in pool.scheduler.crowded_out():
            self.release(pool, name, reasons.CROWDED_OUT)

    async def _rounds(self) -> None:
        flush_in = 0.0
        while True:
            await asyncio.sleep(FLUSH_S)
            flush_in += FLUSH_S
            try:
                if self.journal is not None and (lines := self.journal.take()):
                    await asyncio.to_thread(self.journal.write, lines)
                if flush_in >= ROUND_S:
                    flush_in = 0.0
                    await self._round()
                    await self._check_times()
            except Exception as error:  # the next round must run in any case
                context = {"message": "a round of the gateway failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)

    async def _round(self) -> None:
        now = time.monotonic()
        self.trend.append(views.load(self))
        self.server.sweep()
        for endpoint in self.pools.all_endpoints():
            endpoint.origin.sweep()
        for pool in self.pools.by_name.values():
            for endpoint in pool.endpoints.values():
                self.pools.refresh(pool, endpoint)
            for name in pool.scheduler.expired(now):
                self.release(pool, name, reasons.LEASE_ENDED)
            if pool.scheduler.policy.tick_s is None:
                self.send_admitted(pool, pool.scheduler.tick(now))
            self.set_wake(pool)
        self.pulse.collect_all(now, busy=bool(self.in_flight))
        if self.journal is not None:
            pools = self.pools.by_name.items()
            await self.journal.shorten({name: pool.scheduler.ledger for name, pool in pools})

    async def _check_times(self) -> None:
        in_flight = list(self.in_flight.values())
        for start in range(0, len(in_flight), CHECKED_AT_ONCE):
            now = time.monotonic()
            for proxied in in_flight[start : start + CHECKED_AT_ONCE]:
                if proxied.state is CallState.OVER:
                    continue
                try:
                    self._check_time(proxied, now)
                except Exception as error:
                    proxied.fail(error)
            await asyncio.sleep(0)

    def _check_time(self, proxied: ProxiedCall, now: float) -> None:
        settings = self.settings
        if proxied.state is CallState.HELD:
            held = now - proxied.record.sent
            if held > settings.hold_s:
                self.count("held_too_long")
                proxied.refuse(
                    503,
                    f"held for {settings.hold_s:.0f} s without room; try again",
                    [(b"Retry-After", b"5")],
                    ReasonCode.HELD_TOO_LONG,
                )
            elif (
                proxied.request.stream
                and settings.comment_s
                and now - proxied.commented >= settings.comment_s
            ):
                proxied.comment(now, f"held by the gateway for {held:.0f} s")
        elif now - proxied.active_at > settings.upstream_s and not proxied.paused:
            assert proxied.endpoint is not None, "a sent call has an endpoint"
            proxied.endpoint.failed(now, "silence")
            self.endpoint_changed(proxied.endpoint)
            proxied.refuse(504, f"the engine was silent for {settings.upstream_s:.0f} s")
