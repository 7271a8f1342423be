"""Tests of every policy's invariants under events in any order.

A new policy gets a line in `cases`. Agents keep to their announcements (responses as long as
predicted, engines that do not shrink); an excess caused by a failover of a call is permitted until
its engine is empty.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.serving.scheduling.cases import CASES, Case
from tests.serving.scheduling.world import LATE, World
from tutti.tasks.serving.scheduling import (
    CLIENT_GONE,
    POLICIES,
    Call,
    EngineMetrics,
    EngineState,
    Usage,
)

CAPACITIES = (1000, 2500, None)
TICK_S = 5.0
MOST_TICKS = 40  # to the end of every wait, over those that release rounds take; see `drain`


EVENTS = (
    *("arrive",) * 6,
    *("finish",) * 4,
    *("tick",) * 2,
    *("fail", "withdraw", "release", "first_token", "progress", "expire", "requeue"),
    *("add", "remove", "drain", "accept", "restart", "observe", "move", "wake"),
)
STEPS = st.lists(
    st.tuples(st.sampled_from(EVENTS), st.integers(0, 7), st.integers(1, 12)), max_size=50
)


def full(engine: EngineState | None) -> bool:
    return engine is not None and engine.accepting and not engine.open


class Run:
    """One list of events under one policy."""

    def __init__(self, case: Case) -> None:
        self.case, self.place = case, World(case.make(), *CAPACITIES[:1])
        self.place.now = 1.0
        self.all_engines = list(self.place.engines)
        self.calls: list[Call] = []
        self.ended: set[str] = set()
        self.moved: set[EngineState] = set()

    # Events

    def do(self, event: str, which: int, size: int) -> None:
        self.place.now += size / 4
        admitted = getattr(self, event)(which, size) or []
        for call in admitted:
            self.admitted(call)
        self.look()

    def admitted(self, call: Call) -> None:
        assert call.engine is not None
        assert call.engine.accepting
        assert call.engine.engine_id in self.place.ledger.engines
        assert call.ended is None
        assert call.call_id not in self.place.ledger.waiting
        limit = call.engine.max_calls
        assert limit is None or call.engine in self.moved or len(call.engine.running) <= limit

    def running(self, which: int) -> Call | None:
        calls = [c for c in self.calls if c.engine is not None and c.ended is None]
        return calls[which % len(calls)] if calls else None

    def held(self, which: int) -> Call | None:
        calls = list(self.place.ledger.waiting.values())
        return calls[which % len(calls)] if calls else None

    def some_engine(self, which: int) -> EngineState | None:
        engines = list(self.place.ledger.engines.values())
        return engines[which % len(engines)] if engines else None

    def arrive(self, which: int, size: int) -> list[Call]:
        """Let one of eight programs call with up to 1.2 times the smallest engine's capacity."""
        place = self.place
        name = f"{'abcdefgh'[which]}/{len(self.calls)}"
        call, admitted = place.scheduler.arrive(name[0], name, size * 90, size * 10, place.now)
        self.calls.append(call)
        call.program.tool = "tool" if which % 2 else None
        return admitted

    def end(self, call: Call, usage: Usage | None) -> list[Call]:
        assert call.call_id not in self.ended
        self.ended.add(call.call_id)
        admitted = self.place.scheduler.finish(call, usage, self.place.now)
        assert call.ended == self.place.now
        if call.engine is not None and not call.engine.running:
            self.moved.discard(call.engine)
        self.ends_no_more(call)
        return admitted

    def ends_no_more(self, call: Call) -> None:
        scheduler, now = self.place.scheduler, self.place.now
        done, ended = call.program.calls_done, call.ended
        assert scheduler.finish(call, Usage(1, 1), now + 1) == []
        assert scheduler.withdraw(call, now + 1, LATE) == []
        assert (call.program.calls_done, call.ended) == (done, ended)

    def finish(self, which: int, size: int) -> list[Call]:
        call = self.running(which)
        if call is None:
            return []
        completion = max(call.produced, min(call.output_tokens, size * 10))
        if call.first_token is None and which % 2:
            self.place.scheduler.first_token(call, self.place.now)
        cached = min(call.previous_tokens, call.prompt_tokens) if which % 3 else None
        return self.end(call, Usage(call.prompt_tokens, completion, cached))

    def fail(self, which: int, size: int) -> list[Call]:
        call = self.running(which)
        return [] if call is None else self.end(call, None)

    def withdraw(self, which: int, size: int) -> list[Call]:
        call = self.held(which)
        if call is None:
            return []
        self.ended.add(call.call_id)
        admitted = self.place.scheduler.withdraw(call, self.place.now, CLIENT_GONE)
        self.ends_no_more(call)
        return admitted

    def release(self, which: int, size: int) -> list[Call]:
        program = self.place.ledger.programs.get("abcdefgh"[which])
        if program is not None and (program.running or program.waiting):
            return []
        return self.place.scheduler.release("abcdefgh"[which], self.place.now)

    def tick(self, which: int, size: int) -> list[Call]:
        self.place.now += TICK_S
        admitted = self.place.tick()
        return admitted

    def wake(self, which: int, size: int) -> list[Call]:
        at = self.place.policy.wake_at(self.place.now)
        self.place.now = max(self.place.now, at or 0.0)
        return self.place.tick()

    def first_token(self, which: int, size: int) -> None:
        if (call := self.running(which)) is not None:
            self.place.scheduler.first_token(call, self.place.now)

    def progress(self, which: int, size: int) -> None:
        if (call := self.running(which)) is not None:
            produced = max(call.produced, min(call.output_tokens, size * 5))
            self.place.scheduler.progress(call, produced, self.place.now)

    def expire(self, which: int, size: int) -> list[Call]:
        return self.place.scheduler.expire_idle(self.place.now)

    def requeue(self, which: int, size: int) -> list[Call]:
        call = self.running(which)
        if call is None or call.first_token is not None or call.engine is None:
            return []
        if call.engine.running.keys() == {call.call_id}:
            self.moved.discard(call.engine)
        return self.place.scheduler.requeue(call, self.place.now)

    def add(self, which: int, size: int) -> list[Call]:
        if len(self.place.ledger.engines) >= 3:
            return []
        engine = EngineState(
            f"e{len(self.all_engines)}", CAPACITIES[which % 3], max_calls=2 if size > 10 else None
        )
        self.all_engines.append(engine)
        return self.place.scheduler.add_engine(engine, self.place.now)

    def remove(self, which: int, size: int) -> list[Call]:
        engine = self.some_engine(which)
        if engine is None:
            return []
        admitted = self.place.scheduler.remove_engine(engine, self.place.now)
        for call in list(engine.running.values()):
            admitted += self.end(call, None)
        return admitted

    def drain(self, which: int, size: int) -> list[Call]:
        return self.change(which, accepting=False)

    def accept(self, which: int, size: int) -> list[Call]:
        return self.change(which, accepting=True)

    def restart(self, which: int, size: int) -> list[Call]:
        engine = self.some_engine(which)
        tokens = None if engine is None else engine.capacity_tokens
        larger = None if tokens is None else tokens + size * 16
        return self.change(which, accepting=True, restarted=True, capacity_tokens=larger)

    def change(self, which: int, **changes: Any) -> list[Call]:
        engine = self.some_engine(which)
        if engine is None:
            return []
        return self.place.scheduler.change_engine(engine, self.place.now, **changes)

    def observe(self, which: int, size: int) -> list[Call]:
        engine = self.some_engine(which)
        if engine is None:
            return []
        sample = EngineMetrics(self.place.now, size / 12, size, 0.0, float(which))
        return self.place.scheduler.observe(engine, sample, self.place.now)

    def move(self, which: int, size: int) -> list[Call]:
        call, engine = self.running(which), self.some_engine(size)
        if call is None or engine is None or call.first_token is not None or not engine.open:
            return []
        if engine is call.engine:
            return []
        self.moved.add(engine)
        return self.place.scheduler.move(call, engine, self.place.now)

    # What must hold

    def look(self) -> None:
        """Check that the ledger is consistent and the policy's invariants hold."""
        ledger = self.place.ledger
        programs = ledger.programs.values()
        waiting = {name for program in programs for name in program.waiting}
        running = {name for program in programs for name in program.running}
        on_engines = [name for engine in self.all_engines for name in engine.running]
        assert waiting == set(ledger.waiting)
        assert sorted(running) == sorted(on_engines)
        assert not waiting & running
        assert waiting | running == {c.call_id for c in self.calls} - self.ended
        for call in ledger.waiting.values():
            assert call.engine is None
            assert self.place.policy.reason(call)
        at = self.place.policy.wake_at(self.place.now)
        assert at is None or at >= 0
        for engine in ledger.engines.values():
            self.look_at(engine)

    def look_at(self, engine: EngineState) -> None:
        if self.case.work_conserving and engine.open and not engine.running:
            held = self.place.ledger.waiting.values()
            assert not [c for c in held if not (self.case.sticky and full(c.program.engine))]
        if self.case.books and engine.capacity_tokens and engine not in self.moved:
            booked = self.place.policy.booked_tokens(engine)
            assert booked <= engine.capacity_tokens or len(engine.running) <= 1

    def drain_all(self) -> None:
        """Let engines accept, end all calls and release all programs: every wait must end."""
        self.do("add", 0, 1)
        for number in range(len(self.place.ledger.engines)):
            self.do("accept", number, 1)
        for _ in range(MOST_TICKS):
            if not self.place.ledger.programs:
                break
            self.do("tick", 0, 1)
            while self.running(0) is not None:
                self.do("finish", 0, 1)
            for which in range(8):
                self.do("release", which, 1)
        assert not self.place.ledger.programs, "somebody waits for ever"
        self.look_empty()

    def look_empty(self) -> None:
        policy = self.place.policy
        assert not self.place.ledger.waiting
        assert all(call.ended is not None for call in self.calls)
        for engine in self.place.ledger.engines.values():
            assert policy.booked_tokens(engine) == 0
            assert not engine.running
        for name in self.case.kept:
            assert len(getattr(policy, name)) == 0, name


def test_every_policy_has_a_case() -> None:
    assert {case.policy for case in CASES.values()} == set(POLICIES)


@pytest.mark.parametrize("name", CASES)
@settings(
    max_examples=settings().max_examples * 3 // 5,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(steps=STEPS)
@example([("arrive", 0, 2), ("arrive", 1, 1), ("arrive", 2, 1), ("add", 0, 1), ("move", 0, 1)])
@example(
    [("arrive", 0, 2), ("arrive", 0, 2), *[("arrive", 1, 12)] * 3, ("add", 0, 1)]
    + [("move", 0, 1)] * 2
)
def test_whatever_happens(name: str, steps: list[tuple[str, int, int]]) -> None:
    run = Run(CASES[name])
    for event, which, size in steps:
        run.do(event, which, size)
    run.drain_all()


@pytest.mark.parametrize("name", CASES)
def test_a_crowd_is_served_in_full(name: str) -> None:
    """There are sixty programs of five calls, some of them parallel, with and without usage."""
    run = Run(CASES[name])
    place = run.place
    left = {f"p{number}": 5 for number in range(60)}
    for turn in range(1, 4000):
        place.now += 0.25
        for program in [name for name in left if left[name] and turn % 7 == int(name[1:]) % 7]:
            held = place.ledger.programs.get(program)
            if held is None or len(held.waiting) + len(held.running) < 2:
                left[program] -= 1
                size = 50 + (turn * 37) % 400
                run.calls.append(place.arrive(program, size, 20))
        place.tick()
        for call in [c for c in run.calls if c.engine and c.ended is None][: 1 + turn % 3]:
            run.end(call, None if turn % 11 == 0 else Usage(call.prompt_tokens, 10, 0))
        for known in list(place.ledger.programs.values()):
            if not left[known.program_id] and not known.running and not known.waiting:
                place.scheduler.release(known.program_id, place.now)
        run.look()
        if not any(left.values()) and not place.ledger.programs:
            break
    assert len(run.calls) == 300
    run.look_empty()
