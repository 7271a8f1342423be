"""Run programs on simulated engines under a real policy: `simulate` returns an `Outcome`.

The scheduler and the policy are the gateway's own objects; the clock, the clients and the engines
are simulated. The same inputs give the same outcome. Checked at the end of every run: each call
ended once, and nothing is booked or held anywhere.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from tutti.tasks.serving.scheduling import (
    Call,
    EngineMetrics,
    EngineState,
    Policy,
    Scheduler,
    Usage,
)
from tutti.tasks.serving.simulation.engine import EngineModel, SimEngine, SimRequest
from tutti.tasks.serving.simulation.outcome import Outcome, RunLog, summarise
from tutti.tasks.serving.simulation.workload import (
    ProgramPlan,
    SimulationError,
    SimulationSettings,
)

SAMPLE_S = 1.0
EXPIRE_S = 5.0
WAKE_LEAST_S = 0.001
"""Timer resolution: least delay after which a policy that asks to be woken at once is woken."""
STUCK_S = 7200.0
BOUNDARY, SEND, SAMPLE, TICK, WAKE, EXPIRE = range(6)


@dataclass(slots=True, eq=False)
class Session:
    """A client: it runs programs one after another."""

    plan: ProgramPlan
    turn: int = 0
    sent: float = 0.0


def simulate(
    plans: Sequence[ProgramPlan],
    sessions: int | None,
    engines: Sequence[EngineModel],
    policy: Policy,
    settings: SimulationSettings,
) -> Outcome:
    """Run all programs, in order, and summarise the run. `sessions` is the number of concurrent
    programs (None for open loops, in which each begins when it arrives). No tool runs after a
    program's last call."""
    run = Simulation(list(plans), engines, policy, settings)
    run.go(sessions)
    return run.outcome()


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
        self.plans, self.policy, self.settings = plans, policy, settings
        self.hop_s, self.now = settings.hop_s, 0.0
        self.log = RunLog()
        self.heap: list[tuple[float, int, int, Any]] = []
        self.serial = 0
        self.scheduler = Scheduler(policy)
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
        self.shared = settings.shared_tokens, "shared" if settings.shared_tokens else None
        self._check_sizes(models)

    def _check_sizes(self, models: Sequence[EngineModel]) -> None:
        smallest = min(models, key=lambda model: model.longest_call)
        for plan in self.plans:
            for number, turn in enumerate(plan.turns):
                if turn.prompt + turn.output > smallest.longest_call:
                    raise SimulationError(
                        f"program {plan.name}, call {number}: {turn.prompt} + {turn.output} tokens "
                        f"do not fit engine {smallest.name}, which holds {smallest.longest_call} "
                        "at most; set max_context or a larger kv_tokens"
                    )

    def go(self, sessions: int | None) -> None:
        """Run until every program has ended, then check that nothing is left booked."""
        self._begin(sessions)
        heap, total, pop = self.heap, len(self.plans), heapq.heappop
        sims, waiting = self.sims, self.scheduler.ledger.waiting
        while self.over < total:
            at, _, kind, what = pop(heap)
            if kind == BOUNDARY and sims[what].next_at != at:
                continue  # the run of iterations was cut, or the engine became idle
            if waiting and self.idle:
                self.log.idle_with_queue_s += self.idle * (at - self.now)
            self.now = at
            if kind == BOUNDARY:
                self._boundary(what, sims[what])
            elif kind == SEND:
                self._send(what)
            else:
                self._periodic(kind)
            if self.wakes:
                self._set_wake()
        self._check_empty()

    def _begin(self, sessions: int | None) -> None:
        if sessions is not None and sessions < 1:
            raise SimulationError(f"sessions: must be at least 1, not {sessions}")
        first = len(self.plans) if sessions is None else sessions
        self.queue.extend(self.plans[first:])
        for plan in self.plans[:first]:
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
            if now - self.last_answer > STUCK_S + scheduler.limits.idle_lease_s:
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

    def _send(self, session: Session) -> None:
        turn, now = session.plan.turns[session.turn], self.now
        session.sent, common = now, 1.0
        if session.turn:
            last = session.plan.turns[session.turn - 1]
            common = min(turn.kept / (last.prompt + last.output), 1.0)
        call_id = f"{session.plan.name}/{session.turn}"
        self.by_call[call_id] = session
        _, admitted = self.scheduler.arrive(
            session.plan.name, call_id, turn.prompt, turn.max_tokens, now, common=common
        )
        self._start(admitted)

    def _start(self, admitted: list[Call]) -> None:
        for call in admitted:
            assert call.engine is not None, f"{call.call_id} was admitted nowhere"
            index = self.index_of[call.engine.engine_id]
            session = self.by_call[call.call_id]
            turn = session.plan.turns[session.turn]
            sizes = turn.prompt, turn.output, turn.kept
            request = SimRequest(session.plan.name, session.turn, *sizes, *self.shared, call=call)
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
            if self.settings.streams:
                self.scheduler.first_token(request.call, self.now)
            self.log.ttft.append(self.now - request.call.arrived)
        for request in ended:
            self._end(request)

    def _end(self, request: SimRequest) -> None:
        call, now, log = request.call, self.now, self.log
        assert isinstance(call, Call)
        session = self.by_call.pop(call.call_id)  # fails if a call ends twice
        self.last_answer = now
        log.latency.append(now - session.sent + self.hop_s)
        log.held.append((call.admitted or session.sent) - session.sent)
        turn = session.plan.turns[session.turn]
        session.turn += 1
        is_last = session.turn == len(session.plan.turns)
        next_at = now + self.hop_s + (0.0 if is_last else turn.tool_s)
        log.step_ends.append(next_at)
        usage = Usage(request.prompt, request.output, request.cached)
        admitted = self.scheduler.finish(call, usage, now)
        if not is_last:
            self._push(next_at, SEND, session)
            self._start(admitted)
            return
        self._start(admitted)
        if self.settings.released:
            self._start(self.scheduler.release(session.plan.name, now))
        log.program_ends.append(now)
        self.over += 1
        if self.queue:
            plan = self.queue.popleft()
            self._push(now + self.hop_s + plan.arrives_s, SEND, Session(plan))

    def _check_empty(self) -> None:
        for sim in self.sims:
            left = sim.cache.total - sim.cache.free
            assert not sim.running and not sim.waiting and not left, f"{left} blocks are held"
        assert not self.by_call, f"calls never ended: {list(self.by_call)[:3]}"
        self.scheduler.expire_idle(self.now + self.scheduler.limits.idle_lease_s + 1.0)
        ledger = self.scheduler.ledger
        assert not ledger.waiting and not ledger.programs, f"left: {list(ledger.programs)[:3]}"
        for engine in self.engines:
            assert not engine.running, f"{engine.engine_id} still has calls"
            booked = self.policy.booked_tokens(engine)
            assert booked == 0, f"{engine.engine_id}: {booked} tokens stay booked"

    def outcome(self) -> Outcome:
        names = ("queries", "hits", "recomputed", "prefilled", "preemptions")
        totals = {name: sum(getattr(sim, name) for sim in self.sims) for name in names}
        return summarise(self.log, self.policy.name, len(self.sims), totals)
