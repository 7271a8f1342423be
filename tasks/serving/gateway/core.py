"""The state of one gateway and the transitions of its calls: admission, ends, releases, timers.

`Gateway` (app.py) adds HTTP and the work of each second; the admin API and the views read it here.
`Pulse` measures the gateway's own latency.
"""

import asyncio
import gc
import itertools
import sys
import time
from collections import deque
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from tutti.storage import BufferedWriter, Catalog
from tutti.tasks.serving.gateway.calls.access import Access, Targets
from tutti.tasks.serving.gateway.calls.estimate import PromptSizes
from tutti.tasks.serving.gateway.calls.proxied_call import CallState, ProxiedCall
from tutti.tasks.serving.gateway.calls.request import RecentIds
from tutti.tasks.serving.gateway.calls.transcripts import Transcripts
from tutti.tasks.serving.gateway.endpoints.endpoint import Endpoint
from tutti.tasks.serving.gateway.endpoints.journal import Journal, read_journal
from tutti.tasks.serving.gateway.endpoints.pools import Pool, Pools
from tutti.tasks.serving.gateway.recording.recorder import CallRecorder, EventLog, ProgramAttempts
from tutti.tasks.serving.gateway.settings import GatewaySettings
from tutti.tasks.serving.metering.gpu import Gpus
from tutti.tasks.serving.metering.prices import PriceList, read_prices
from tutti.tasks.serving.scheduling import Call, Reason, ReasonCode, SchedulerLimits, reasons

BEAT_S = 0.02
YOUNG_BEATS, OLDER_BEATS = 5, 250
"""Beats from one collection of young garbage to the next, and of what survived one. A call leaves
next to none, and what lives while it is looked at costs as much as garbage: each beat, and older
objects each second, took 5 % of the gateway's CPU."""
KEPT = 1024
COLLECT_S, COLLECT_AT_LAST_S = 60.0, 3600.0
GROWN, GROWN_BLOCKS = 1.25, 100_000
"""All garbage is collected when the interpreter's blocks have grown by that share and number: some
10 MB."""


class Pulse:
    """Times of the last decisions, and the longest delay of the event loop since it was last
    read."""

    def __init__(self) -> None:
        self._decisions: deque[float] = deque(maxlen=KEPT)
        self.decision_max_s = 0.0
        self.stall_max_s = 0.0
        self._collected, self._blocks = time.monotonic(), sys.getallocatedblocks()

    def decided(self, seconds: float) -> None:
        self._decisions.append(seconds)
        self.decision_max_s = max(self.decision_max_s, seconds)

    def decision_s(self, *shares: float) -> list[float]:
        """Quantiles of the last decision times, at those shares; 0 before the first."""
        ordered = sorted(self._decisions) or [0.0]
        return [ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in shares]

    async def beat(self) -> None:
        """Measure the loop's delay forever, and collect new cyclic garbage, for milliseconds."""
        for beat in itertools.count(1):
            before = time.monotonic()
            await asyncio.sleep(BEAT_S)
            self.stall_max_s = max(self.stall_max_s, time.monotonic() - before - BEAT_S)
            if beat % YOUNG_BEATS == 0:
                gc.collect(int(beat % OLDER_BEATS == 0))

    def collect_all(self, now: float, busy: bool) -> None:
        """Collect all cyclic garbage from time to time, preferably while no call waits: it takes up
        to tens of milliseconds; sooner when memory has grown."""
        grown = sys.getallocatedblocks() > GROWN * self._blocks + GROWN_BLOCKS
        if grown or now - self._collected > (COLLECT_AT_LAST_S if busy else COLLECT_S):
            gc.collect()
            self._collected, self._blocks = now, sys.getallocatedblocks()

    def reset(self) -> None:
        self._decisions.clear()
        self.decision_max_s = self.stall_max_s = 0.0


TREND_S = 120


class GatewayCore:
    """The pools, calls and records of one gateway."""

    def __init__(
        self,
        catalog: Catalog,
        settings: GatewaySettings | None = None,
        access: Access | None = None,
        journal: Path | None = None,
    ) -> None:
        """Raises ValueError for invalid policy options, PriceError."""
        self.settings = settings = settings or GatewaySettings()
        self.access = access or Access("")
        self.record_tokens = settings.record_tokens
        self.targets = Targets(settings.allow_engine, settings.engine_key)
        self.folder = Path(str(catalog.home)) / "gateway"
        self.counts: dict[str, int] = {}
        self.cell_id, self.concurrency = "", None  # type: str, int | None
        self.recorder = recorder = BufferedWriter(catalog)
        transcripts = Transcripts(catalog.home)
        programs = ProgramAttempts(catalog, recorder, transcripts, settings.name, settings.policy)
        self.recording = CallRecorder(recorder, transcripts, programs)
        self.events = EventLog(recorder, lambda: self.cell_id, self.count)
        self.events.all_events = settings.all_events
        self.pools = Pools(
            settings.policy,
            settings.policy_options,
            SchedulerLimits(settings.idle_lease_s),
            self.events.note,
            self.send_admitted,
        )
        self.events.pools = self.pools
        self.pools.sample_s, self.pools.slots = settings.sample_s, settings.slots
        self.pools.on_rows = self.recording.keep_samples
        self.pools.on_trouble = self.events.engine_trouble
        self.pools.on_lacking = self.events.lacking
        self.pools.on_fault = self._policy_failed
        self.pools.cell = lambda: self.cell_id
        self.pools.listed = PriceList(read_prices(settings.prices)).of
        self.gpus = Gpus(self.recording.keep_samples, self.pools.cell)
        self.journal = None if journal is None else Journal(journal)
        if journal is not None:
            self.pools.living = read_journal(journal)
        self.pulse = Pulse()
        self.trend: deque[tuple[int, int]] = deque(maxlen=TREND_S)
        """Calls held and running, one pair a second."""
        self.sizes = PromptSizes()
        self.in_flight: dict[str, ProxiedCall] = {}
        """Calls that have not ended, by call id."""
        self.call_ids = RecentIds()
        self._parsing = asyncio.Lock()
        self._releasing, self._tasks = set[tuple[str, str]](), set[asyncio.Task[None]]()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background; `stop` cancels it and waits for its end."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._spawn_ended)

    def _spawn_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self.report(error)

    def send_admitted(self, pool: Pool, calls: list[Call]) -> None:
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
        pool.is_going_on = False
        if pool.scheduler.has_more:
            self.send_admitted(pool, pool.scheduler.admit_more(time.monotonic()))

    def note_admitted(self, proxied: ProxiedCall) -> None:
        if self.settings.all_events and proxied.call is not None:
            reason = Reason(ReasonCode.ADMITTED, proxied.scheduler.policy.name)
            self.events.note("admit", proxied.call.program, proxied.call, reason)

    def ended(self, proxied: ProxiedCall) -> None:
        """Record an ended call, and release a program that was one call."""
        self.in_flight.pop(proxied.request.call_id, None)
        for step in (self._account, self._record, self._let_rest):
            try:
                step(proxied)
            except Exception as error:  # ends this call only; other calls continue
                self.report(error)

    def report(self, error: Exception) -> None:
        self.count("faults")
        context = {"message": "the gateway failed at a call", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)

    def _policy_failed(self, error: Exception, calls: list[Call]) -> None:
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
        """Update the scheduler after an endpoint failed, or requested a pause."""
        for pool in self.pools.by_name.values():
            if endpoint.name in pool.endpoints:
                self.pools.refresh(pool, endpoint)

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

    def count(self, name: str) -> None:
        """Add one to a counter that the metrics show."""
        self.counts[name] = self.counts.get(name, 0) + 1
