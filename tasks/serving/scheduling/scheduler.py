"""The scheduler: updates the ledger on events and asks the policy which calls to admit.

A pure state machine; the caller passes the time. Every call ends exactly once, by `finish` or
`withdraw`, and leaves nothing booked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tutti.tasks.serving.scheduling.ledger import (
    Call,
    EngineMetrics,
    EngineState,
    Ledger,
    Program,
    Rate,
    Usage,
)
from tutti.tasks.serving.scheduling.policy import Log, Policy, no_log
from tutti.tasks.serving.scheduling.reasons import (
    LEASE_ENDED,
    RELEASED,
    WITHDRAWN,
    Reason,
    ReasonCode,
)

IDLE_LEASE_S = 1800.0
"""A program with no call or release for this long is treated as ended. Policies free its place long
before; the lease only bounds memory."""

MAX_PROGRAMS = 20_000
"""Beyond this many programs, the longest idle are treated as ended: each takes a kilobyte and some
scanning time."""

AT_ONCE = 8  # calls admitted by one event: thousands at a time would stall all others


@dataclass(frozen=True, slots=True)
class SchedulerLimits:
    """Limits on the number of programs in the ledger."""

    idle_lease_s: float = IDLE_LEASE_S
    programs: int = MAX_PROGRAMS


OnFault = Callable[[Exception, list[Call]], None]
"""Called with a policy's exception and the waiting calls that may never be admitted because of it.
"""


def fail_fast(error: Exception, calls: list[Call]) -> None:
    """The default `on_fault`: raise the exception."""
    raise error


class Scheduler:
    """One ledger under one policy. Methods that can free room return the calls admitted as a
    result. An exception of a policy goes to `on_fault`. If that returns, the event has still taken
    effect: the ledger is consistent, and the owner of `on_fault` must end the waiting calls."""

    def __init__(
        self, policy: Policy, limits: SchedulerLimits = SchedulerLimits(), log: Log = no_log
    ) -> None:
        self.ledger = Ledger()
        self.policy, self.limits, self.log = policy, limits, log
        self.on_fault: OnFault = fail_fast
        self.has_more = False
        """Whether more calls may be admissible than were admitted at once."""
        policy.attach(self.ledger, log)

    def add_engine(self, engine: EngineState, now: float) -> list[Call]:
        assert engine.engine_id not in self.ledger.engines, (
            f"{engine.engine_id} is already in the ledger; remove it first"
        )
        self.ledger.engines[engine.engine_id] = engine
        self._tell(self.policy.changed, engine, now)
        return self._admit(now)

    def change_engine(
        self,
        engine: EngineState,
        now: float,
        *,
        accepting: bool | None = None,
        capacity_tokens: int | None = None,
        restarted: bool = False,
    ) -> list[Call]:
        """Update an engine that drains, comes back, was restarted or changed its capacity."""
        if accepting is not None:
            engine.accepting = accepting
        if capacity_tokens is not None:
            engine.capacity_tokens = capacity_tokens
        if restarted:
            engine.allocated_tokens += engine.capacity_tokens or 0  # its cache is empty
        self._tell(self.policy.changed, engine, now)
        return self._admit(now)

    def remove_engine(self, engine: EngineState, now: float) -> list[Call]:
        """Remove an engine. The caller must end its running calls; its programs lose their
        engine."""
        self.ledger.engines.pop(engine.engine_id, None)
        engine.accepting = False
        for program in self.ledger.programs.values():
            if program.engine is engine:
                program.engine = None
        self._tell(self.policy.changed, engine, now)
        return self._admit(now)

    def observe(self, engine: EngineState, sample: EngineMetrics, now: float) -> list[Call]:
        self._tell(self.policy.observed, engine, sample, now)
        return self._admit(now)

    def arrive(
        self,
        program_id: str,
        call_id: str,
        prompt_tokens: int,
        output_tokens: int,
        now: float,
        key: str = "",
        common: float = 1.0,
    ) -> tuple[Call, list[Call]]:
        """Add a call. Returns it and the calls admitted now, which may include it."""
        ledger = self.ledger
        assert call_id not in ledger.waiting, f"{call_id} is already waiting"
        program = ledger.programs.get(program_id)
        for engine in ledger.engines.values():
            assert call_id not in engine.running, f"{call_id} is already running"
        if program is None:
            program = ledger.programs[program_id] = Program(program_id, now, key=key)
        first = program.calls_done == 0 and not program.running and not program.waiting
        call = Call(
            call_id, program, now, prompt_tokens, output_tokens, key, first=first, common=common
        )
        program.waiting[call_id] = call
        ledger.waiting[call_id] = call
        self._tell(self.policy.arrived, call, now)
        ledger.wake(program)
        admitted = self._admit(now, call)
        if call.engine is None:
            self._tell(self._log_hold, call)
        return call, admitted

    def withdraw(self, call: Call, now: float, reason: Reason) -> list[Call]:
        """Withdraw a held call. Its program continues with its other calls."""
        if self.ledger.waiting.pop(call.call_id, None) is None:
            return []
        program = call.program
        program.waiting.pop(call.call_id, None)
        program.held_s += now - call.arrived
        call.ended = now
        self._tell(self.policy.withdrawn, call, now)
        if not program.running and not program.waiting and program.idle_since is None:
            self.ledger.rest(program, now)
        event = WITHDRAWN.get(reason.code, "reject")
        self._tell(self.log, event, program, call, reason)
        return self._admit(now)

    def first_token(self, call: Call, now: float) -> None:
        if call.first_token is None and call.ended is None:
            call.first_token = now
            self._tell(self.policy.first_token, call, now)

    def progress(self, call: Call, produced: int, now: float) -> None:
        """Set the number of tokens streamed so far."""
        if call.ended is None:
            call.produced = produced
            self._tell(self.policy.progressed, call, now)

    def finish(self, call: Call, usage: Usage | None, now: float) -> list[Call]:
        """End a running call; without usage it failed, or its client disconnected."""
        engine, program = call.engine, call.program
        if call.ended is not None:
            return []
        assert engine is not None, f"{call.call_id} is waiting; call withdraw, not finish"
        call.ended, call.usage = now, usage
        engine.running.pop(call.call_id, None)
        program.running.pop(call.call_id, None)
        if usage is not None:
            program.calls_done += 1
            fresh = usage.prompt + usage.completion - (usage.cached or 0)
            engine.allocated_tokens += fresh
            context = usage.prompt + usage.completion
            alone = not program.running
            program.context_tokens = context if alone else max(program.context_tokens, context)
            if engine.rate is not None:
                engine.rate.correct(call.expected_tokens, usage.prompt, usage.completion)
        if call.admitted is not None:
            program.attained_s += now - call.admitted
        if program.engine is engine:
            program.last_use_tokens = engine.allocated_tokens
        if not program.running and not program.waiting:
            self.ledger.rest(program, now)
        self._tell(self.policy.finished, call, now)
        return self._admit(now)

    def move(self, call: Call, engine: EngineState, now: float) -> list[Call]:
        """Move a running call that failed before its first token to another engine."""
        left = call.engine
        if call.ended is not None or left is None:
            return []
        left.running.pop(call.call_id, None)
        self._place(call, engine, now)
        self._tell(self.policy.changed, left, now)
        return self._admit(now)

    def requeue(self, call: Call, now: float) -> list[Call]:
        """Put a running call that an engine refused (429) back in the queue, at its old
        position."""
        engine, program = call.engine, call.program
        if engine is None or call.ended is not None:
            return []
        engine.running.pop(call.call_id, None)
        program.running.pop(call.call_id, None)
        self._tell(self.policy.returned, call, now)
        call.engine = call.admitted = call.first_token = None
        call.produced = 0
        program.held_s -= now - call.arrived  # is counted again when it leaves the queue
        program.waiting[call.call_id] = call
        others, self.ledger.waiting = self.ledger.waiting, {call.call_id: call}
        self.ledger.waiting |= others
        self._tell(self.policy.arrived, call, now)
        return self._admit(now)

    def release(self, program_id: str, now: float, reason: Reason = RELEASED) -> list[Call]:
        """End a program; the caller must first end its calls (`withdraw`, `finish`)."""
        program = self.ledger.programs.get(program_id)
        if program is None:
            return []
        assert not program.running and not program.waiting, f"{program_id} still has calls"
        del self.ledger.programs[program_id]
        self.ledger.idle.pop(program_id, None)
        self._tell(self.policy.gone, program, now, reason)
        event = "release" if reason.code is ReasonCode.RELEASED else "expire"
        self._tell(self.log, event, program, None, reason)
        return self._admit(now)

    def tick(self, now: float) -> list[Call]:
        self._tell(self.policy.ticked, now)
        return self._admit(now)

    def expire_idle(self, now: float) -> list[Call]:
        """End the leases of programs that were idle for too long. Call it every few seconds."""
        return [call for name in self.expired(now) for call in self.release(name, now, LEASE_ENDED)]

    def expired(self, now: float) -> list[str]:
        """Programs that were idle for longer than their lease."""
        oldest, names = now - self.limits.idle_lease_s, list[str]()
        for name, program in self.ledger.idle.items():
            if program.idle_since is None or program.idle_since >= oldest:
                break  # later ones have been idle for less long
            names.append(name)
        return names

    def crowded_out(self) -> list[str]:
        """The longest idle programs beyond the allowed number."""
        too_many = len(self.ledger.programs) - self.limits.programs
        return list(islice(self.ledger.idle, max(0, too_many)))

    def admit_more(self, now: float) -> list[Call]:
        """Continue where a decision stopped at `AT_ONCE` calls; call it while `has_more` is
        true."""
        return self._admit(now)

    def wake_at(self, now: float) -> float | None:
        """When to tick even if nothing happens: for the policy, or for the next call under a rate
        limit."""
        if not self.ledger.waiting:
            return None
        times = [now + rate.ready_in_s() for rate in self._rates() if not rate.open]
        try:
            at = self.policy.wake_at(now)
        except Exception as error:
            self.on_fault(error, list(self.ledger.waiting.values()))
            return None
        return min(times if at is None else [*times, at], default=None)

    def _rates(self) -> list[Rate]:
        return [engine.rate for engine in self.ledger.engines.values() if engine.rate is not None]

    def _over_rate(self) -> Reason | None:
        engines = [engine for engine in self.ledger.engines.values() if engine.accepting]
        if any(engine.rate is None or engine.rate.open for engine in engines):
            return None
        text = "; ".join(f"{engine.engine_id} takes {engine.rate}" for engine in engines)
        return Reason(ReasonCode.RATE_LIMIT, text) if text else None

    def _admit(self, now: float, cause: Call | None = None) -> list[Call]:
        self.has_more = False
        if not self.ledger.waiting:
            return []
        for rate in self._rates():
            rate.fill(now)
        admitted = list[Call]()
        try:
            for call, engine in self.policy.admit(now):
                self._leave_queue(call, now)
                admitted.append(call)
                self._place(call, engine, now)
                if len(admitted) == AT_ONCE:
                    self.has_more = bool(self.ledger.waiting)
                    break
        except Exception as error:
            waiting = self.ledger.waiting
            known = cause is not None and cause.call_id in waiting
            self.on_fault(error, [cause] if cause and known else list(waiting.values()))
        return admitted

    def _leave_queue(self, call: Call, now: float) -> None:
        del self.ledger.waiting[call.call_id]
        call.program.waiting.pop(call.call_id, None)
        call.program.held_s += now - call.arrived

    def _place(self, call: Call, engine: EngineState, now: float) -> None:
        program = call.program
        call.previous_tokens = program.context_tokens if program.engine is engine else 0
        call.engine, call.admitted = engine, now
        engine.running[call.call_id] = call
        program.running[call.call_id] = call
        if engine.rate is not None:
            call.expected_tokens = engine.rate.take(call.prompt_tokens, call.output_tokens)
        program.engine = engine
        self.ledger.wake(program)
        self._tell(self.policy.admitted, call, now)

    def _log_hold(self, call: Call) -> None:
        self.log("hold", call.program, call, self._over_rate() or self.policy.reason(call))

    def _tell(self, hook: Callable[..., None], *event: Any) -> None:
        try:
            hook(*event)
        except Exception as error:  # the ledger stays consistent whatever the policy raised
            calls = [each for each in event if isinstance(each, Call)]
            self.on_fault(error, [call for call in calls if call.call_id in self.ledger.waiting])
