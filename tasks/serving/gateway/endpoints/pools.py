"""Pools of endpoints that serve the same models, with their scheduler and their periodic sampling.

Calls of an engine without usable metrics are scheduled by count: `max_calls` of the endpoint, else
the gateway's `slots`, are in flight at a time. Its list of models is the health check.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from tutti.storage import catalog as cat
from tutti.tasks.serving.gateway.endpoints import prefill
from tutti.tasks.serving.gateway.endpoints.endpoint import (
    FAILURES_TO_CLOSE,
    Endpoint,
    EndpointConfig,
    ProbeFailed,
)
from tutti.tasks.serving.gateway.endpoints.journal import LivingPrograms, restore
from tutti.tasks.serving.metering.metrics import (
    MetricsPage,
    engine_sample,
    read_page,
)
from tutti.tasks.serving.registry.models import Prices
from tutti.tasks.serving.scheduling import (
    Call,
    Program,
    Scheduler,
    SchedulerLimits,
    make_policy,
)
from tutti.tasks.serving.scheduling.policy import Log
from tutti.tasks.serving.scheduling.scheduler import OnFault, fail_fast
from tutti.tasks.serving.wire.client import Permits

FOREIGN = "its /metrics have no figures of vLLM or SGLang"


class EngineUnwell(ProbeFailed):
    """The engine itself reports that it does not serve."""


async def lacks_metrics(endpoint: Endpoint, error: Exception) -> bool:
    """Whether an endpoint whose sample failed still answers, so that only its metrics are missing:
    from its first sample on, or after as many misses as take an engine out of service."""
    is_new = not endpoint.reachable and not endpoint.has_metrics
    if isinstance(error, EngineUnwell):
        return False
    if not (is_new or endpoint.lacks or endpoint.failures + 1 >= FAILURES_TO_CLOSE):
        return False
    try:
        await endpoint.read_models()
    except ProbeFailed:
        return False
    endpoint.lacks = endpoint.lacks or str(error)
    endpoint.kv_usage = None
    return True


def set_slots(endpoint: Endpoint, slots: int) -> None:
    """Limit the calls in flight of an endpoint that lacks metrics; with metrics, only the
    endpoint's own limit counts. A known capacity stays, so that policies continue to book by it."""
    counted = bool(endpoint.lacks) and endpoint.engine.capacity_tokens is None
    endpoint.engine.max_calls = endpoint.config.max_calls or (slots if counted else None)


def warning(endpoint: Endpoint) -> str:
    """Return the operator's warning about an endpoint that lacks metrics."""
    engine = endpoint.engine
    if engine.capacity_tokens is not None:
        rule = f"its capacity stays {engine.capacity_tokens} tokens"
    else:
        rule = (
            f"calls are scheduled by count, at most {engine.max_calls} at a time; set its "
            "`max_calls`, its `capacity_tokens` or --slots"
        )
    return f"{endpoint.name} has no usable metrics ({endpoint.lacks}): {rule}"


Rows = list[dict[str, Any]]
Admitted = Callable[["Pool", list[Call]], None]


class Pool:
    """Endpoints that serve the same models."""

    def __init__(
        self, name: str, policy: str, options: dict[str, Any], limits: SchedulerLimits
    ) -> None:
        self.name, self.limits, self.policy_options = name, limits, options
        self.endpoints: dict[str, Endpoint] = {}
        self.scheduler = Scheduler(make_policy(policy, options), limits)
        self.wake: asyncio.TimerHandle | None = None
        self.ticked = 0.0
        self.is_going_on = False
        self.on_fault: OnFault = fail_fast

    def begin(self, policy: str, options: dict[str, Any], log: Log) -> None:
        """Create a new scheduler over the same endpoints. Raises ValueError for an invalid
        policy."""
        made = make_policy(policy, options)
        self.policy_options = options
        self.scheduler = Scheduler(made, self.limits, log)
        self.scheduler.on_fault = self.on_fault
        now = time.monotonic()
        for endpoint in self.endpoints.values():
            # Calls of the previous cell end under their own scheduler. Its engines keep only the
            # bookings of running calls: these take room, whichever scheduler admitted them.
            engine = endpoint.engine
            fresh = type(engine)(
                engine.engine_id,
                engine.capacity_tokens,
                engine.block_tokens,
                engine.max_calls,
                engine.rate,
                engine.accepting,
                running=engine.running,
                prefill_token_s=engine.prefill_token_s,
            )
            endpoint.engine = fresh
            self.scheduler.add_engine(fresh, now)

    @property
    def models(self) -> set[str]:
        return {name for endpoint in self.endpoints.values() for name in endpoint.models}

    def entry_of(self, model: str) -> str | None:
        """The registry's entry that a call means by `model`; None if no endpoint has it."""
        for endpoint in self.endpoints.values():
            if (name := endpoint.entry_of(model)) is not None:
                return name
        return None


class Pools:
    """All pools, found by a model's name."""

    def __init__(
        self,
        policy: str,
        options: dict[str, Any],
        limits: SchedulerLimits,
        log: Log,
        admitted: Admitted,
    ) -> None:
        make_policy(policy, options)
        self.policy, self.options, self.limits = policy, options, limits
        self.log, self.admitted = log, admitted
        self.by_name: dict[str, Pool] = {}
        self.living: LivingPrograms = {}
        self._by_model: dict[str, Pool] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.on_rows: Callable[[Rows], None] = lambda rows: None
        self.on_trouble: Callable[[Endpoint, str], None] = lambda endpoint, reason: None
        self.on_lacking: Callable[[Endpoint], None] = lambda endpoint: None
        self.slots = 1
        self.cell: Callable[[], str] = lambda: ""
        self.on_fault: OnFault = fail_fast
        self.listed: Callable[[str], Prices | None] = lambda model: None
        self.sample_s = 1.0

    def of_model(self, model: str) -> Pool:
        """Return the pool that serves `model`. An unknown name goes to the first pool, whose engine
        may know it (a newly loaded adapter). Raises LookupError if there is no pool, or if several
        serve the name."""
        known = self.find_pool(model)
        if known is not None:
            return known
        if not self.by_name:
            raise LookupError("the gateway has no engine")
        return next(iter(self.by_name.values()))

    def find_pool(self, model: str) -> Pool | None:
        """Return the pool that serves `model`: as an entry of the registry, else by the name that
        its endpoints have for it. The default pool comes before others that serve the same name.
        Raises LookupError if several of those do."""
        known = self._by_model.get(model)
        if known is not None:
            return known
        pools = list(self.by_name.values())
        found = next((p for p in pools if p.entry_of(model) == model), None)
        found = found or next((p for p in pools if model in p.models), None)
        if found is None:
            found = _only([p for p in pools if p.entry_of(model) is not None], model)
        if found is not None:
            self._by_model[model] = found
        return found

    def step_of(self, program: Program, given: int | None) -> int:
        """Return the number of a program's next call: the client's own number, else 1, 2, 3, … in
        order of arrival, whatever models the calls are for."""
        if given is not None:
            return given
        if len(self.by_name) > 1:
            ledgers = [pool.scheduler.ledger for pool in self.by_name.values()]
            known = [ledger.programs.get(program.program_id) for ledger in ledgers]
            program.steps = max(each.steps for each in known if each is not None)
        program.steps += 1
        return program.steps

    def share_clock(self, program: Program) -> None:
        """Give a program its clock from other pools, because its waits there may overlap."""
        if len(self.by_name) == 1:
            return
        ledgers = (pool.scheduler.ledger for pool in self.by_name.values())
        known = (ledger.programs.get(program.program_id) for ledger in ledgers)
        others = (each.clock for each in known if each is not None and each is not program)
        program.clock = next(others, program.clock)

    def program(self, name: str) -> Program | None:
        ledgers = (pool.scheduler.ledger for pool in self.by_name.values())
        return next((each.programs[name] for each in ledgers if name in each.programs), None)

    def forget_models(self) -> None:
        """Rebuild the model index: endpoints changed the models they serve."""
        self._by_model.clear()

    def all_endpoints(self) -> Iterable[Endpoint]:
        return [e for pool in self.by_name.values() for e in pool.endpoints.values()]

    def add(self, config: EndpointConfig, permits: Permits | None = None) -> Endpoint:
        """Add an endpoint that may connect to addresses that `permits` allows; it gets calls once
        it answers. Raises ValueError."""
        endpoint = Endpoint.make(config, permits)
        endpoint.listed = self.listed
        if any(each.name == endpoint.name for each in self.all_endpoints()):
            raise ValueError(f"engine {endpoint.name!r} already exists; remove it first")
        pool = self.by_name.get(config.pool)
        if pool is None:
            pool = self.by_name[config.pool] = Pool(
                config.pool, self.policy, self.options, self.limits
            )
            pool.on_fault = self.on_fault
            pool.begin(self.policy, self.options, self.log)
        pool.endpoints[endpoint.name] = endpoint
        self.forget_models()
        pool.scheduler.add_engine(endpoint.engine, time.monotonic())
        task = asyncio.get_running_loop().create_task(self._watch(pool, endpoint))
        self._tasks[endpoint.name] = task
        task.add_done_callback(lambda task: self._watch_ended(task, pool, endpoint))
        return endpoint

    def restore(self) -> None:
        """Restore the journal's programs, once all engines of the start are present."""
        for name, pool in self.by_name.items():
            ours = {each: endpoint.engine for each, endpoint in pool.endpoints.items()}
            restore(self.living, name, pool.scheduler.ledger, ours, time.monotonic())

    def find(self, name: str) -> tuple[Pool, Endpoint]:
        """The endpoint with that id. Raises LookupError that lists the known ones."""
        for pool in self.by_name.values():
            if name in pool.endpoints:
                return pool, pool.endpoints[name]
        known = ", ".join(sorted(e.name for e in self.all_endpoints())) or "none"
        raise LookupError(f"no engine {name!r}; known: {known}")

    async def remove(self, name: str) -> None:
        """Remove an endpoint once its running calls have ended. Raises LookupError."""
        pool, endpoint = self.find(name)
        if endpoint.draining:
            return  # its removal is in progress
        endpoint.draining = True
        self.refresh(pool, endpoint)
        while endpoint.engine.running:
            await asyncio.sleep(0.05)  # every call has its own time limit
        self._tasks.pop(name).cancel()
        del pool.endpoints[name]
        self._by_model.clear()
        admitted = pool.scheduler.remove_engine(endpoint.engine, time.monotonic())
        await endpoint.origin.close()
        self.admitted(pool, admitted)

    def refresh(self, pool: Pool, endpoint: Endpoint) -> None:
        """Update the scheduler on whether the endpoint accepts calls."""
        now = time.monotonic()
        is_well = endpoint.reachable and now >= endpoint.paused_until
        accepting = is_well and not endpoint.draining
        if accepting != endpoint.engine.accepting:
            admitted = pool.scheduler.change_engine(endpoint.engine, now, accepting=accepting)
            self.admitted(pool, admitted)

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for endpoint in self.all_endpoints():
            await endpoint.origin.close()

    async def sample_now(self) -> None:
        await asyncio.gather(
            *(
                self._round(pool, endpoint)
                for pool in self.by_name.values()
                for endpoint in pool.endpoints.values()
            )
        )

    async def _watch(self, pool: Pool, endpoint: Endpoint) -> None:
        while True:
            await self._round(pool, endpoint)
            await asyncio.sleep(self.sample_s if endpoint.reachable else endpoint.next_probe_s())

    def _watch_ended(self, task: asyncio.Task[None], pool: Pool, endpoint: Endpoint) -> None:
        """Take an endpoint out of service whose sampling task failed; otherwise nobody would
        notice."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        endpoint.reachable, endpoint.pause_reason = False, f"its watch failed: {error!r}"
        self.on_trouble(endpoint, endpoint.pause_reason)
        self.refresh(pool, endpoint)
        context = {"message": f"the watch of {endpoint.name} failed", "exception": error}
        task.get_loop().call_exception_handler(context)

    async def _round(self, pool: Pool, endpoint: Endpoint) -> None:
        try:
            if endpoint.config.metrics:
                await self._sample(pool, endpoint)
            elif not endpoint.models:
                await endpoint.read_models()
            endpoint.reachable = True
            if endpoint.config.metrics:
                endpoint.failures = min(endpoint.failures, 1)
        except (ProbeFailed, ValueError) as error:
            if endpoint.config.metrics and await lacks_metrics(endpoint, error):
                self._count(pool, endpoint)
            else:
                self._missed(endpoint, str(error))
        self.refresh(pool, endpoint)

    def _count(self, pool: Pool, endpoint: Endpoint) -> None:
        is_new = not endpoint.reachable or endpoint.has_metrics
        endpoint.reachable, endpoint.has_metrics = True, False
        endpoint.failures = min(endpoint.failures, 1)
        if is_new:
            self._by_model.clear()
            set_slots(endpoint, self.slots)
            self.on_lacking(endpoint)
            self.admitted(pool, pool.scheduler.change_engine(endpoint.engine, time.monotonic()))

    async def _sample(self, pool: Pool, endpoint: Endpoint) -> None:
        # One round at a time: discovery runs once, and the first sample of a cell, which may start
        # meanwhile, includes the prompts that discovery sent.
        async with endpoint.finding:
            page = await self._page(endpoint)
            if not (endpoint.reachable and endpoint.has_metrics):
                await self._discover(pool, endpoint, page)
                page = await self._page(endpoint)
                endpoint.reachable = True
            self._take(pool, endpoint, page)

    def _missed(self, endpoint: Endpoint, reason: str) -> None:
        endpoint.failures += 1
        if not endpoint.reachable or endpoint.failures >= 3:
            if endpoint.reachable:
                self.on_trouble(endpoint, f"it does not answer: {reason}")
            endpoint.reachable, endpoint.kv_usage = False, None
            endpoint.has_metrics = False
            endpoint.pause_reason = reason

    async def _page(self, endpoint: Endpoint) -> MetricsPage:
        answer = await endpoint.ask(b"GET", b"/metrics")
        if answer.status == HTTPStatus.OK:
            return read_page(answer.body)
        absent = answer.status < 500 or answer.status == HTTPStatus.NOT_IMPLEMENTED
        raise (ProbeFailed if absent else EngineUnwell)(f"/metrics answered {answer.status}")

    async def _discover(self, pool: Pool, endpoint: Endpoint, page: MetricsPage) -> None:
        await endpoint.read_models()
        self._by_model.clear()
        sample = engine_sample(page, time.monotonic())
        capacity = endpoint.config.capacity_tokens or sample.capacity_tokens
        if sample.block_tokens is not None:
            endpoint.engine.block_tokens = sample.block_tokens
        if endpoint.config.measure and sample.running == 0 and sample.waiting == 0:
            endpoint.engine.prefill_token_s = await self._prefill(endpoint, capacity)
        says_nothing = (sample.running, sample.kv_usage, capacity) == (None, None, None)
        endpoint.lacks = FOREIGN if says_nothing else ""
        endpoint.has_metrics = True
        set_slots(endpoint, self.slots)
        if endpoint.lacks:
            self.on_lacking(endpoint)
        # Whether it was restarted, so that its cache is empty, is seen from its counters (`_take`).
        pool.scheduler.change_engine(endpoint.engine, time.monotonic(), capacity_tokens=capacity)

    async def _prefill(self, endpoint: Endpoint, capacity_tokens: int | None) -> float | None:
        try:
            return await prefill.measure(endpoint, capacity_tokens)
        except ProbeFailed as error:
            self.on_trouble(endpoint, f"the cost of its prompt tokens was not measured: {error}")
            return None

    def _take(self, pool: Pool, endpoint: Endpoint, page: MetricsPage) -> None:
        now = time.monotonic()
        cell = self.cell()
        rows = endpoint.sampler.rows(page, cat.now(), cell)
        if cell:
            self.on_rows(rows)
        if endpoint.sampler.restarted:
            endpoint.restarts += 1
            self.on_trouble(endpoint, "it restarted")
            capacity = endpoint.config.capacity_tokens or engine_sample(page, now).capacity_tokens
            pool.scheduler.change_engine(
                endpoint.engine, now, capacity_tokens=capacity, restarted=True
            )
        sample = engine_sample(page, now)
        endpoint.kv_usage = sample.kv_usage
        self.admitted(pool, pool.scheduler.observe(endpoint.engine, sample, now))


def _only(pools: list[Pool], model: str) -> Pool | None:
    """Return the only pool that serves `model`, which is no entry's name. Raises LookupError."""
    default = next((pool for pool in pools if not pool.name), None)
    if default is None and len(pools) > 1:
        names = ", ".join(str(pool.entry_of(model)) for pool in pools)
        raise LookupError(f"several models are served as {model!r:.200}; name one of: {names}")
    return default or next(iter(pools), None)
