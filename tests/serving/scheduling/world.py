"""Scheduler for tests: every event occurs at a time that the test sets."""

import itertools

from tutti.tasks.serving.scheduling import (
    Call,
    EngineState,
    Policy,
    Program,
    Reason,
    ReasonCode,
    Scheduler,
    SchedulerLimits,
    Usage,
)

LATE = Reason(ReasonCode.HELD_TOO_LONG, "no room for 3 s")


class World:
    """One policy with engines `e0`, `e1`, ...; calls are numbered."""

    def __init__(self, policy: Policy, *capacities: int | None, lease_s: float = 1800.0) -> None:
        self.log: list[tuple[str, str, str]] = []
        self.codes: list[ReasonCode] = []
        self.now = 0.0
        self.scheduler = Scheduler(policy, SchedulerLimits(idle_lease_s=lease_s), self._write)
        self.policy, self.ledger = policy, self.scheduler.ledger
        self._numbers = itertools.count()
        self.engines = [self.engine(capacity) for capacity in capacities]

    def _write(self, event: str, program: Program, call: Call | None, reason: Reason) -> None:
        self.log.append((event, program.program_id, reason.text))
        self.codes.append(reason.code)

    def engine(
        self, capacity: int | None, block: int = 1, max_calls: int | None = None
    ) -> EngineState:
        name = f"e{len(self.ledger.engines)}"
        engine = EngineState(name, capacity, block_tokens=block, max_calls=max_calls)
        self.scheduler.add_engine(engine, self.now)
        return engine

    def arrive(self, program: str, prompt: int = 100, output: int = 0) -> Call:
        name = f"{program}/{next(self._numbers)}"
        return self.scheduler.arrive(program, name, prompt, output, self.now)[0]

    def finish(self, call: Call, total: int | None = None, completion: int = 0) -> list[Call]:
        """End a call with `total` tokens of context, by default the predicted number."""
        total = call.need_tokens if total is None else total
        return self.scheduler.finish(call, Usage(total - completion, completion), self.now)

    def fail(self, call: Call) -> list[Call]:
        return self.scheduler.finish(call, None, self.now)

    def step(self, program: str, tokens: int, output: int = 0) -> Call:
        call = self.arrive(program, tokens - output, output)
        assert call.engine is not None, f"{program} is held"
        self.finish(call, tokens, output)
        return call

    def tick(self, after: float = 0.0) -> list[Call]:
        self.now += after
        return self.scheduler.tick(self.now)

    def program(self, name: str) -> Program:
        return self.ledger.programs[name]


def running(*calls: Call) -> list[bool]:
    return [call.engine is not None and call.ended is None for call in calls]
