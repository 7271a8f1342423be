"""The gateway: accepts requests, holds and forwards them, and records every call.

In: HTTP. Out: HTTP, and rows of `calls`, `messages`, `gateway_events` and `server_metrics`.
Run: ``python -m tutti.tasks.serving.gateway --help``.
"""

import asyncio
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tutti.storage import BufferedWriter, Catalog
from tutti.tasks.serving.gateway.admin import views
from tutti.tasks.serving.gateway.admin.access import Access, Key
from tutti.tasks.serving.gateway.admin.admin_api import AdminApi
from tutti.tasks.serving.gateway.admin.targets import Targets
from tutti.tasks.serving.gateway.calls.body import LARGE_BYTES, LargeBodies
from tutti.tasks.serving.gateway.calls.bounds import check_all
from tutti.tasks.serving.gateway.calls.estimate import PromptSizes, chain_of, common_share
from tutti.tasks.serving.gateway.calls.proxied_call import CallState, ProxiedCall
from tutti.tasks.serving.gateway.calls.request import read_request
from tutti.tasks.serving.gateway.calls.routes import BadRequest, ModelRoute
from tutti.tasks.serving.gateway.calls.screen import Permission, RequestScreen
from tutti.tasks.serving.gateway.calls.unscheduled import forward, measure
from tutti.tasks.serving.gateway.endpoint import Endpoint, EndpointConfig, ProbeFailed
from tutti.tasks.serving.gateway.pools import Pool, Pools
from tutti.tasks.serving.gateway.pulse import Pulse
from tutti.tasks.serving.gateway.recent import RecentIds
from tutti.tasks.serving.gateway.recording.call_recorder import CallRecorder
from tutti.tasks.serving.gateway.recording.events import EventLog
from tutti.tasks.serving.gateway.recording.gpus import Gpus
from tutti.tasks.serving.gateway.recording.journal import FLUSH_S, Journal, read_journal
from tutti.tasks.serving.gateway.settings import Settings
from tutti.tasks.serving.metering.prices import PriceList
from tutti.tasks.serving.scheduling import Call, Reason, ReasonCode, SchedulerLimits, reasons
from tutti.tasks.serving.wire.exchange import Exchange
from tutti.tasks.serving.wire.screen import AccessDenied, answer, refusal
from tutti.tasks.serving.wire.server import Server

ROUND_S = 1.0
MAX_TOKENIZE = 4  # requests for exact prompt sizes at a time
FEW_WAITING = 64  # prompts of held calls beyond this number are not measured yet


class Gateway:
    """One gateway: its server, pools, access rules and records."""

    def __init__(
        self,
        catalog: Catalog,
        settings: Settings | None = None,
        access: Access | None = None,
        journal: Path | None = None,
    ) -> None:
        self.settings = settings = settings or Settings()
        self.access = access or Access("")
        self.record_tokens = settings.record_tokens
        self.targets = Targets(settings.engine_hosts, settings.engine_keys)
        self.recorder = BufferedWriter(catalog)
        self.recording = CallRecorder.of(catalog, self.recorder, settings)
        self.folder = Path(str(catalog.home)) / "gateway"
        """Folder for files of running gateways: token and journal."""
        self.counts: dict[str, int] = {}
        self.cell_id, self.concurrency = "", None  # type: str, int | None
        self.events = EventLog(self.recorder, lambda: self.cell_id, self.count)
        self.events.all_events = settings.all_events
        self.pools = Pools(
            settings.policy,
            settings.options,
            SchedulerLimits(settings.idle_lease_s),
            self.events.note,
            self.send_admitted,
        )
        self.events.pools = self.pools
        self.pools.sample_s = settings.sample_s
        self.pools.on_rows = self.recording.keep_samples
        self.pools.on_trouble = self.events.engine_trouble
        self.pools.on_lacking, self.pools.slots = self.events.lacking, settings.slots
        self.pools.on_fault = self._policy_failed
        self.pools.cell = lambda: self.cell_id
        self.pools.listed = PriceList(settings.prices).of
        self.gpus = Gpus(self.recording.keep_samples, self.pools.cell)
        self.journal = None if journal is None else Journal(journal)
        if journal is not None:
            self.pools.living = read_journal(journal)
        self.pulse = Pulse()
        self.trend = views.new_trend()
        self.sizes = PromptSizes()
        self.in_flight, self.call_ids = dict[str, ProxiedCall](), RecentIds()
        screen = RequestScreen(self.access, AdminApi(self).routes(), self.count)
        self.server = Server(self.handle, settings.server, screen)
        self._releasing, self._tokenizing = set[tuple[str, str]](), 0
        self._large, self._tasks = LargeBodies(self), set[asyncio.Task[None]]()

    # Life

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

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background; `stop` cancels it and waits for its end."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._spawn_ended)

    def _spawn_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self.report(error)

    # Requests

    def handle(self, exchange: Exchange) -> None:
        """Handle an authorized request: a model call, or a request to the gateway itself."""
        allowed: Permission = exchange.permission
        try:
            if len(exchange.body) > LARGE_BYTES and exchange.parsed is None:
                self.spawn(self._large.parse(exchange))
            elif allowed.handler is not None:
                allowed.handler(exchange)
            elif allowed.route is not None and allowed.route.is_call:
                self._call(exchange, allowed.key, allowed.route)
            elif allowed.route is not None:
                self.spawn(forward(self, exchange, allowed.route))
        except AccessDenied as denied:
            self.count("denied")
            answer(exchange, denied.status, refusal(denied.status, str(denied)))
        except BadRequest as error:
            answer(exchange, 400, refusal(400, str(error)))

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
            self._held(pool, proxied)
        for name in pool.scheduler.crowded_out():
            self.release(pool, name, reasons.CROWDED_OUT)

    def _held(self, pool: Pool, proxied: ProxiedCall) -> None:
        call = proxied.call
        assert call is not None
        few = len(pool.scheduler.ledger.waiting) <= FEW_WAITING
        if call.first and few and self._tokenizing < MAX_TOKENIZE:
            self.spawn(self._measured(pool, proxied, call))
        self.set_wake(pool)

    async def _measured(self, pool: Pool, proxied: ProxiedCall, call: Call) -> None:
        self._tokenizing += 1
        try:
            wanted = self.sizes.question(proxied.request)
            count = None if wanted is None else await measure(pool, wanted, proxied.request)
        except ProbeFailed:
            self.count("sizes_not_measured")  # the estimate remains
        else:
            if count is not None and call.engine is None and call.ended is None:
                admitted = proxied.scheduler.estimate(call, count, time.monotonic())
                self.send_admitted(pool, admitted)
        finally:
            self._tokenizing -= 1

    def send_admitted(self, pool: Pool, calls: list[Call]) -> None:
        """Send calls that the scheduler has admitted."""
        for call in calls:
            proxied = self.in_flight.get(call.call_id)
            if proxied is None:  # a bug; the call must not keep its place forever
                self.report(AssertionError(f"{call.call_id} is in the ledger but not in flight"))
                calls.extend(pool.scheduler.finish(call, None, time.monotonic()))
                continue
            proxied.call = call
            proxied.send()
        if pool.scheduler.has_more and not pool.is_going_on:
            pool.is_going_on = True
            asyncio.get_running_loop().call_soon(self._go_on, pool)

    def _go_on(self, pool: Pool) -> None:
        """Admit the calls that did not fit into one event."""
        pool.is_going_on = False
        if pool.scheduler.has_more:
            self.send_admitted(pool, pool.scheduler.admit_more(time.monotonic()))

    def note_admitted(self, proxied: ProxiedCall) -> None:
        """A held call was admitted."""
        if self.settings.all_events and proxied.call is not None:
            reason = Reason(ReasonCode.ADMITTED, proxied.scheduler.policy.name)
            self.events.note("admit", proxied.call.program, proxied.call, reason)

    def ended(self, proxied: ProxiedCall) -> None:
        """A call has ended: record it, and release a program that was one call."""
        self.in_flight.pop(proxied.request.call_id, None)
        for step in (self._account, self._record, self._let_rest):
            try:
                step(proxied)
            except Exception as error:  # ends this call only; other calls continue
                self.report(error)

    def report(self, error: Exception) -> None:
        """Count and log an internal error."""
        self.count("faults")
        context = {"message": "the gateway failed at a call", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)

    def _policy_failed(self, error: Exception, calls: list[Call]) -> None:
        """Refuse the calls that a failed policy may never admit; other calls continue."""
        self.report(error)
        self.events.trouble(Reason(ReasonCode.POLICY_FAILED, f"the policy failed: {error!r}"))
        asyncio.get_running_loop().call_soon(self._refuse_calls, calls)

    def _refuse_calls(self, calls: list[Call]) -> None:
        for call in calls:
            proxied = self.in_flight.get(call.call_id)
            if proxied is not None and proxied.state is CallState.HELD:
                text = "the scheduling policy failed; the gateway's log says how"
                proxied.refuse(500, text, code=ReasonCode.POLICY_FAILED)

    def _account(self, proxied: ProxiedCall) -> None:
        record, reported = proxied.record, proxied.record.reported
        if record.status == "ok" and reported.prompt:
            self.sizes.learn(proxied.request, proxied.prompt_bytes, reported.prompt)
        if self.access.spend(proxied.key, record.cost_usd(), proxied.estimate_usd()):
            self.events.unknown_cost(record)
        self.count(f"status_{record.status}")
        if proxied.call is not None:
            record.spend(proxied.call.program)

    def _record(self, proxied: ProxiedCall) -> None:
        proxied.record.policy = proxied.scheduler.policy.name
        self.recording.soon(proxied.record)

    def _let_rest(self, proxied: ProxiedCall) -> None:
        request, pool = proxied.request, proxied.pool
        program = proxied.call.program if proxied.call is not None else None
        if program is None:
            return
        over = request.is_anonymous or (pool.name, program.program_id) in self._releasing
        if over and not program.running and not program.waiting:
            self._releasing.discard((pool.name, program.program_id))
            asyncio.get_running_loop().call_soon(self.release, pool, program.program_id)
        elif self.journal is not None:
            self.journal.note(pool.name, program)

    def release(self, pool: Pool, program_id: str, reason: Reason = reasons.RELEASED) -> bool:
        """End a program: refuse its waiting calls; its running calls may finish."""
        scheduler = pool.scheduler
        program = scheduler.ledger.programs.get(program_id)
        if program is None:
            return False
        for call in list(program.waiting.values()):
            text = f"the program {program_id!r} was released"
            self.in_flight[call.call_id].refuse(409, text, code=ReasonCode.RELEASED)
        if program.running:
            self._releasing.add((pool.name, program_id))
            return True
        if program_id in scheduler.ledger.programs:
            if self.journal is not None:
                self.journal.forget(pool.name, program_id)
            self.send_admitted(pool, scheduler.release(program_id, time.monotonic(), reason))
            if self.pools.program(program_id) is None:
                self.recording.soon((program_id, reason.code))
        return True

    def endpoint_changed(self, endpoint: Endpoint) -> None:
        """An endpoint failed, or asked for a pause."""
        for pool in self.pools.by_name.values():
            if endpoint.name in pool.endpoints:
                self.pools.refresh(pool, endpoint)

    # Time

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
                    await check_all(self)
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

    def set_wake(self, pool: Pool) -> None:
        """Set the timer for the scheduler's next tick."""
        now, tick_s = time.monotonic(), pool.scheduler.policy.tick_s
        times = [] if tick_s is None else [pool.ticked + tick_s]
        if (at := pool.scheduler.wake_at(now)) is not None:
            times.append(at)
        if not times:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + max(min(times) - now, 0.001)
        if pool.wake is not None:
            if pool.wake.when() <= due:
                return
            pool.wake.cancel()
        pool.wake = loop.call_at(due, self._woken, pool)

    def _woken(self, pool: Pool) -> None:
        pool.wake, pool.ticked = None, time.monotonic()
        self.send_admitted(pool, pool.scheduler.tick(pool.ticked))
        self.set_wake(pool)

    # Records

    def count(self, name: str) -> None:
        """Add one to a counter that the metrics show."""
        self.counts[name] = self.counts.get(name, 0) + 1
