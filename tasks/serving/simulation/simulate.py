"""Run programs on simulated engines under a real policy: `simulate` returns an `Outcome`.

The scheduler and the policy are the gateway's own objects; the clock, the clients and the engines
are simulated. The same inputs give the same outcome. Checked at the end of every run: each call
ended once, and nothing is booked or held anywhere.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from tutti.tasks.serving.scheduling import (
    CLIENT_GONE,
    Call,
    EngineMetrics,
    EngineState,
    Policy,
    Program,
    Reason,
    Scheduler,
    Usage,
)
from tutti.tasks.serving.simulation.engine import EngineModel, SimEngine, SimRequest
from tutti.tasks.serving.simulation.outcome import Event, Outcome, RunLog, summarise
from tutti.tasks.serving.simulation.workload import (
    DEFAULTS,
    ProgramPlan,
    SimulationError,
    SimulationSettings,
    Workload,
)

SAMPLE_S = 1.0
"""Interval at which engines' metrics are sampled, as in the gateway."""
EXPIRE_S = 5.0
WAKE_LEAST_S = 0.001
"""Timer resolution: least delay after which a policy that asks to be woken at once is woken."""
STUCK_S = 7200.0
"""Simulated time without any answer after which the policy is considered stuck."""
BOUNDARY, SEND, GIVE_UP, SAMPLE, TICK, WAKE, EXPIRE = range(7)


@dataclass(slots=True, eq=False)
class Session:
    """A client: it runs programs one after another."""

    plan: ProgramPlan
    turn: int = 0
    tries: int = 0
    epoch: int = 0
    """Counts sendings; a timer set for an earlier sending is void."""
    sent: float = 0.0
    began: float = 0.0
    call: Call | None = None
    request: SimRequest | None = None


def simulate(
    workload: Workload | Sequence[ProgramPlan],
    sessions: int | None,
    engines: Sequence[EngineModel],
    policy: Policy,
    seed: int = 0,
    settings: SimulationSettings = DEFAULTS,
) -> Outcome:
    """Run all programs of `workload` and summarise the run.

    `sessions` is the number of concurrent programs (None, for open loops: each begins when it
    arrives). Given plans are run in order. No tool runs after a program's last call.
    """
    if isinstance(workload, Workload):
        plans = workload.plans(seed)
        settings = replace(settings, clients=workload.clients)
    else:
        plans = list(workload)
    run = Simulation(plans, engines, policy, settings)
    run.go(sessions)
    return run.outcome(settings.window)


class Simulation:
    """One run: a heap of events, the scheduler, the engines."""

    def __init__(
        self,
        plans: list[ProgramPlan],
        models: Sequence[EngineModel],
        policy: Policy,
        settings: SimulationSettings,
    ) -> None:
        if not models:
            raise SimulationError("engines: at least one is needed")
        self.plans, self.policy = plans, policy
        self.hop_s, self.limits = settings.hop_s, settings.limits
        self.clients, self.progress = settings.clients, settings.progress
        self.now = 0.0
        self.book = RunLog()
        self.heap: list[tuple[float, int, int, Any]] = []
        self.serial = self.events = 0
        log = self._log if settings.record_events else None
        self.scheduler = (
            Scheduler(policy, self.limits, log) if log else Scheduler(policy, self.limits)
        )
        self.sims = [SimEngine(model) for model in models]
        self.engines = [
            EngineState(
                f"engine-{i}",
                model.kv_tokens,
                model.block_tokens,
                prefill_token_s=model.prefill_token_s,
            )
            for i, model in enumerate(models)
        ]
        self.index_of = {engine.engine_id: i for i, engine in enumerate(self.engines)}
        for engine in self.engines:
            self.scheduler.add_engine(engine, 0.0)
        self.by_call: dict[str, Session] = {}
        self.queue: deque[ProgramPlan] = deque()
        self.over = 0
        self.idle = len(self.sims)
        self.last_answer = 0.0
        self.wake = inf
        self.wakes = type(policy).wake_at is not Policy.wake_at
        shared_tokens = self.clients.shared_tokens
        self.shared = shared_tokens, "shared" if shared_tokens else None
        self._check_sizes(plans, models)

    def _check_sizes(self, plans: list[ProgramPlan], models: Sequence[EngineModel]) -> None:
        smallest = min(models, key=lambda model: model.longest_call)
        for plan in plans:
            for number, turn in enumerate(plan.turns):
                if turn.prompt + turn.output > smallest.longest_call:
                    raise SimulationError(
                        f"program {plan.name}, call {number}: {turn.prompt} + {turn.output} tokens "
                        f"do not fit engine {smallest.name}, which holds {smallest.longest_call} "
                        "at most; set max_context or a larger kv_tokens"
                    )

    # The loop

    def go(self, sessions: int | None) -> None:
        """Run until every program has ended, then check that nothing is left booked."""
        self._begin(sessions)
        heap, total, pop = self.heap, len(self.plans), heapq.heappop
        sims, book, waiting = self.sims, self.book, self.scheduler.ledger.waiting
        while self.over < total:
            at, _, kind, what = pop(heap)
            if kind == BOUNDARY and sims[what].next_at != at:
                continue  # the run of iterations was cut, or the engine became idle
            if waiting and self.idle:
                book.idle_with_queue_s += self.idle * (at - self.now)
            self.now = at
            self.events += 1
            if kind == BOUNDARY:
                self._boundary(what, sims[what])
            elif kind == SEND:
                self._send(what)
            elif kind == GIVE_UP:
                self._give_up(*what)
            else:
                self._periodic(kind)
            if self.wakes:
                self._set_wake()
        self._close()

    def _begin(self, sessions: int | None) -> None:
        if sessions is None:
            for plan in self.plans:
                self._push(plan.arrives_s, SEND, Session(plan))
        else:
            if sessions < 1:
                raise SimulationError(f"sessions: must be at least 1, not {sessions}")
            self.queue.extend(self.plans[sessions:])
            for plan in self.plans[:sessions]:
                self._push(plan.arrives_s, SEND, Session(plan))
        if type(self.policy).observed is not Policy.observed:
            self._push(SAMPLE_S, SAMPLE, None)
        if self.policy.tick_s is not None:
            self._push(self.policy.tick_s, TICK, None)
        self._push(EXPIRE_S, EXPIRE, None)

    def _push(self, at: float, kind: int, what: Any) -> None:
        self.serial += 1
        heapq.heappush(self.heap, (at, self.serial, kind, what))

    def _periodic(self, kind: int) -> None:
        now, scheduler = self.now, self.scheduler
        if kind == SAMPLE:
            for engine, sim in zip(self.engines, self.sims, strict=True):
                self._start(scheduler.observe(engine, self._sample(sim), now))
            self._push(now + SAMPLE_S, SAMPLE, None)
        elif kind == TICK:
            self._start(scheduler.tick(now))
            self._push(now + (self.policy.tick_s or SAMPLE_S), TICK, None)
        elif kind == WAKE:
            self.wake = inf
            self._start(scheduler.tick(now))
        else:
            self._start(scheduler.expire_idle(now))
            self._push(now + EXPIRE_S, EXPIRE, None)
            if now - self.last_answer > STUCK_S + self.limits.idle_lease_s:
                held = len(scheduler.ledger.waiting)
                raise SimulationError(
                    f"policy {self.policy.name}: no answer since {self.last_answer:.0f} s, "
                    f"{held} calls held, {self.over} of {len(self.plans)} programs over"
                )

    def _sample(self, sim: SimEngine) -> EngineMetrics:
        return EngineMetrics(
            at=self.now,
            kv_usage=sim.kv_usage(self.now),
            running=len(sim.running),
            waiting=len(sim.waiting),
            preemptions_total=sim.preemptions,
            prefix_queries_total=sim.queries,
            prefix_hits_total=sim.hits,
        )

    def _set_wake(self) -> None:
        at = self.policy.wake_at(self.now)
        if at is not None and at < self.wake:
            self.wake = max(at, self.now + WAKE_LEAST_S)
            self._push(self.wake, WAKE, None)

    # Calls

    def _send(self, session: Session) -> None:
        """Send a session's next call to the gateway."""
        turn, now = session.plan.turns[session.turn], self.now
        if session.turn == 0 and session.tries == 0:
            session.began = now
        session.sent = now
        session.epoch += 1
        self.book.calls += 1
        call_id = f"{session.plan.name}/{session.turn}/{session.tries}"
        self.by_call[call_id] = session
        common = 1.0
        if session.turn:
            last = session.plan.turns[session.turn - 1]
            common = min(turn.kept / (last.prompt + last.output), 1.0)
        session.call, admitted = self.scheduler.arrive(
            session.plan.name, call_id, turn.prompt, turn.max_tokens, now, common=common
        )
        self._start(admitted)
        if turn.leaves_after_s is not None:
            self._push(now + turn.leaves_after_s, GIVE_UP, (session, session.epoch, True))
        if self.clients.timeout_s is not None:
            self._push(now + self.clients.timeout_s, GIVE_UP, (session, session.epoch, False))

    def _start(self, admitted: list[Call]) -> None:
        for call in admitted:
            assert call.engine is not None, f"{call.call_id} was admitted nowhere"
            index = self.index_of[call.engine.engine_id]
            session = self.by_call[call.call_id]
            turn = session.plan.turns[session.turn]
            sizes = turn.prompt, turn.output, turn.kept
            request = SimRequest(session.plan.name, session.turn, *sizes, *self.shared)
            request.call, session.request, session.call = call, request, call
            sim = self.sims[index]
            before = sim.next_at
            sim.submit(request, self.now)
            if before == inf:
                self.idle -= 1
            if sim.next_at != before:
                self._push(sim.next_at, BOUNDARY, index)
        if self.scheduler.has_more:
            self._start(self.scheduler.admit_more(self.now))

    def _boundary(self, index: int, sim: SimEngine) -> None:
        started, ended = sim.boundary()
        if sim.next_at == inf:
            self.idle += 1
        else:
            self._push(sim.next_at, BOUNDARY, index)
        for request in started:
            assert isinstance(request.call, Call)
            if self.clients.streams:
                self.scheduler.first_token(request.call, self.now)
            self.book.ttft.append(self.now - request.call.arrived)
        for request in ended:
            self._end(request)

    def _end(self, request: SimRequest) -> None:
        call, now = request.call, self.now
        assert isinstance(call, Call)
        session = self.by_call.pop(call.call_id)  # fails if a call ends twice
        usage = Usage(request.prompt, request.output, request.cached)
        self.last_answer = now
        book = self.book
        book.latency.append(now - session.sent + self.hop_s)
        book.held.append((call.admitted or session.sent) - session.sent)
        turn = session.plan.turns[session.turn]
        last = session.turn + 1 == len(session.plan.turns)
        book.step_ends.append(now + self.hop_s + (0.0 if last else turn.tool_s))
        session.call = session.request = None
        session.epoch += 1
        session.tries = 0
        session.turn += 1
        admitted = self.scheduler.finish(call, usage, now)
        if not last:
            self._push(now + self.hop_s + turn.tool_s, SEND, session)
            self._start(admitted)
        else:
            self._start(admitted)
            self._program_over(session, self.clients.released)

    def _give_up(self, session: Session, epoch: int, for_good: bool) -> None:
        """Give up a session's call at its timeout, unless that call has ended."""
        call, request, now = session.call, session.request, self.now
        if epoch != session.epoch or call is None:
            return
        del self.by_call[call.call_id]
        if request is None:
            admitted = self.scheduler.withdraw(call, now, CLIENT_GONE)
        else:
            assert call.engine is not None, f"{call.call_id} runs nowhere"
            index = self.index_of[call.engine.engine_id]
            sim = self.sims[index]
            before = sim.next_at
            sim.abort(request, now)
            if sim.next_at != before:
                self._push(sim.next_at, BOUNDARY, index)
            admitted = self.scheduler.finish(call, None, now)
        session.call = session.request = None
        session.epoch += 1
        session.tries += 1
        self._start(admitted)
        if not for_good and session.tries <= self.clients.retries:
            self._push(now + self.clients.retry_wait_s, SEND, session)
            return
        self.book.failed += 1
        self._program_over(session, not for_good and self.clients.released)

    def _program_over(self, session: Session, released: bool) -> None:
        now, book = self.now, self.book
        if released:
            self._start(self.scheduler.release(session.plan.name, now))
        book.program_ends.append(now)
        book.durations.append(now - session.began)
        self.over += 1
        if self.queue:
            plan = self.queue.popleft()
            self._push(now + self.hop_s + plan.arrives_s, SEND, Session(plan))
        if self.progress is not None and self.over % 64 == 0:
            self.progress(self.over, len(self.plans))

    # The end

    def _close(self) -> None:
        """Check that every engine and every booking is empty."""
        for sim in self.sims:
            while sim.next_at != inf:  # what was aborted last
                sim.boundary()
            left = sim.cache.total - sim.cache.free
            assert not sim.running and not sim.waiting and not left, f"{left} blocks are held"
        assert not self.by_call, f"calls never ended: {list(self.by_call)[:3]}"
        later = self.now + self.limits.idle_lease_s + 1.0
        self.scheduler.expire_idle(later)
        ledger = self.scheduler.ledger
        assert not ledger.waiting and not ledger.programs, f"left: {list(ledger.programs)[:3]}"
        for engine in self.engines:
            assert not engine.running, f"{engine.engine_id} still has calls"
            booked = self.policy.booked_tokens(engine)
            assert booked == 0, f"{engine.engine_id}: {booked} tokens stay booked"

    def outcome(self, window: tuple[float, float]) -> Outcome:
        names = ("queries", "hits", "recomputed", "prefilled", "preemptions")
        totals = {name: sum(getattr(sim, name) for sim in self.sims) for name in names}
        return summarise(self.book, self.policy.name, len(self.sims), totals, window, self.events)

    def _log(self, event: str, program: Program, call: Call | None, reason: Reason) -> None:
        name = call.call_id if call is not None else ""
        row: Event = (self.now, event, program.program_id, name, reason.code, reason.text)
        self.book.events.append(row)
