"""`least_attained_service`: the program with the least engine time so far goes first.

Rule: A program's service is the seconds that its ended calls ran. Service is divided into levels,
each `growth` times as wide as the one before, the first `quantum_s` wide. The waiting call of the
lowest level goes first; within a level, the earliest arrival. So new and short programs overtake
long ones, and a program moves down a level each time it has used one up. A program that has waited
`starvation_ratio` times its service (at least times one quantum) counts as new again; its wait and
service are counted from then on. The first call in this order is admitted when its tokens fit
beside what running calls have booked: on its own engine if possible, else on the one with most
room; a call that fits nowhere goes to an idle engine. No call overtakes the first because the first
is large.

Source: Autellix (arXiv 2502.13965), program-level attained service (PLAS), reimplemented.

Left out: preemption (a gateway cannot take back a call it has sent, so levels apply between calls
only); ATLAS, which counts the longest path of parallel calls (here they are summed); the choice of
engine by call length; multi-step hints from agents. The level widths and the ratio are our own.
"""

import math
from collections.abc import Iterable

from tutti.tasks.serving.scheduling.ledger import Call, EngineState, Program
from tutti.tasks.serving.scheduling.policy import (
    Admission,
    Policy,
    RankedCalls,
    roomiest,
    running_tokens,
)
from tutti.tasks.serving.scheduling.reasons import NO_ENGINE, Reason, ReasonCode


class LeastAttainedService(Policy):
    """Admits the program with the least engine time so far first."""

    name = "least_attained_service"

    def __init__(
        self,
        *,
        quantum_s: float = 2.0,
        growth: float = 2.0,
        levels: int = 8,
        starvation_ratio: float = 5.0,
    ) -> None:
        if quantum_s <= 0 or growth <= 1 or levels < 1 or starvation_ratio <= 0:
            raise ValueError(
                f"{self.name}: quantum_s {quantum_s} and starvation_ratio {starvation_ratio} must "
                f"be above 0, growth {growth} above 1, levels {levels} at least 1"
            )
        self.quantum_s, self.growth, self.levels = quantum_s, growth, levels
        self.starvation_ratio = starvation_ratio
        self._queue = RankedCalls()
        self._patience = RankedCalls()
        """The same calls, ordered by when they will have starved."""

    def arrived(self, call: Call, now: float) -> None:
        self._queue.put(call, (self.level(call.program), call.arrived))
        held, served = self._since_renewal(call.program)
        patience_s = self.starvation_ratio * max(served, self.quantum_s) - held
        self._patience.put(call, (call.arrived + patience_s,))

    def withdrawn(self, call: Call, now: float) -> None:
        self._leave(call)

    def admitted(self, call: Call, now: float) -> None:
        """Remove the call from the queue; a call that failed over was not in it."""
        self._leave(call)

    def finished(self, call: Call, now: float) -> None:
        """Requeue the program's waiting calls, whose level may have dropped."""
        for waiting in call.program.waiting.values():
            level = self.level(call.program)
            if level > self._queue.rank(waiting)[0] and waiting in self._patience:
                self._queue.put(waiting, (level, waiting.arrived))

    def admit(self, now: float) -> Iterable[Admission]:
        """Admit the first call as long as it fits somewhere."""
        self._renew_starved(now)
        while (call := self._queue.first()) is not None:
            engines = self.ledger.open_engines()
            idle = next((engine for engine in engines if not engine.running), None)
            engine = roomiest(call, engines, self._free) or idle
            if engine is None:
                return
            yield call, engine

    def booked_tokens(self, engine: EngineState) -> int:
        return running_tokens(engine)

    def reason(self, call: Call) -> Reason:
        if not self.ledger.open_engines():
            return NO_ENGINE
        text = f"level {self._queue.rank(call)[0]:.0f}, {len(self._queue)} wait"
        return Reason(ReasonCode.QUEUED, text)

    def level(self, program: Program) -> int:
        """Return the program's level; 0 has had the least service."""
        quanta = self._since_renewal(program)[1] / self.quantum_s
        if quanta < 1:
            return 0
        # Widths grow by a constant factor, so the upper edges are geometric sums.
        sunk = math.log(quanta * (self.growth - 1) + 1, self.growth)
        return min(int(sunk), self.levels - 1)

    def _since_renewal(self, program: Program) -> tuple[float, float]:
        held_s, attained_s = program.note or (0.0, 0.0)  # when it was last counted as new
        return program.held_s - held_s, program.attained_s - attained_s

    def _renew_starved(self, now: float) -> None:
        while (call := self._patience.first()) and self._patience.rank(call)[0] <= now:
            self._patience.drop(call)
            program = call.program
            program.note = program.held_s + now - call.arrived, program.attained_s
            self._queue.put(call, (0, call.arrived))

    def _leave(self, call: Call) -> None:
        self._queue.drop(call)
        self._patience.drop(call)

    def _free(self, engine: EngineState) -> float:
        if engine.capacity_tokens is None:
            return math.inf
        return engine.capacity_tokens - running_tokens(engine)
