"""`least_attained_service`: whose program has had least of the engine goes first.

The rule, in words. A program's service is the seconds that its ended calls ran. Service is cut into
levels, each `growth` times as wide as the one before, the first `quantum_s` wide; the waiting call
of the lowest level goes first, in a level the one that came first. So new and short programs
overtake long ones, and a program sinks a level each time it has used one up. A program that has
waited `starvation_ratio` times its service (at least times one quantum) counts as new again, its
wait and service from then on. The first in this order is admitted when its need fits next to what
running calls have booked, on its own engine if it can be, else where there is most room; what fits
nowhere goes to an engine that runs nothing. Nobody overtakes the first because it is large.

Source: Autellix (arXiv 2502.13965), program-level attained service (PLAS), written anew.

Left out: preemption (a gateway can't take back what it sent, so a level binds from one call to the
next only); ATLAS, which counts the longest path where calls run in parallel (ours sums them); its
engine choice by length of call; reading of multi-step hints from agents. Widths and ratio are ours.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tutti.tasks.serving.scheduling.ledger import Call, EngineState, Program
from tutti.tasks.serving.scheduling.policy import Admission, Policy
from tutti.tasks.serving.scheduling.ranked_calls import RankedCalls
from tutti.tasks.serving.scheduling.reasons import NO_ENGINE, Reason, ReasonCode
from tutti.tasks.serving.scheduling.room import roomiest, running_tokens


@dataclass(frozen=True, slots=True)
class _Renewal:
    """A program's account when it was last counted as new."""

    held_s: float
    attained_s: float


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
        """The same calls, by when they will have starved."""

    def arrived(self, call: Call, now: float) -> None:
        """Into its program's level."""
        self._queue.put(call, (self.level(call.program), call.arrived))
        held, served = self._since_renewal(call.program)
        patience_s = self.starvation_ratio * max(served, self.quantum_s) - held
        self._patience.put(call, (call.arrived + patience_s,))

    def withdrawn(self, call: Call, now: float) -> None:
        """It waits no more."""
        self._leave(call)

    def admitted(self, call: Call, now: float) -> None:
        """It waits no more; a call that failed over did not wait."""
        self._leave(call)

    def finished(self, call: Call, now: float) -> None:
        """Its program's other calls, which wait, may sink."""
        for waiting in call.program.waiting.values():
            level = self.level(call.program)
            if level > self._queue.rank(waiting)[0] and waiting in self._patience:
                self._queue.put(waiting, (level, waiting.arrived))

    def admit(self, now: float) -> Iterable[Admission]:
        """The first, as long as it fits somewhere."""
        self._renew_starved(now)
        while (call := self._queue.first()) is not None:
            engines = self.ledger.open_engines()
            idle = next((engine for engine in engines if not engine.running), None)
            engine = roomiest(call, engines, self._free) or idle
            if engine is None:
                return
            yield call, engine

    def booked_tokens(self, engine: EngineState) -> int:
        """Running calls, in whole blocks."""
        return running_tokens(engine)

    def reason(self, call: Call) -> Reason:
        """Its level, and how many wait with it."""
        if not self.ledger.open_engines():
            return NO_ENGINE
        text = f"level {self._queue.rank(call)[0]:.0f}, {len(self._queue)} wait"
        return Reason(ReasonCode.QUEUED, text)

    def level(self, program: Program) -> int:
        """0 for the least served."""
        quanta = self._since_renewal(program)[1] / self.quantum_s
        if quanta < 1:
            return 0
        # Widths grow by a constant factor, so the levels end at its powers' sums.
        sunk = math.log(quanta * (self.growth - 1) + 1, self.growth)
        return min(int(sunk), self.levels - 1)

    def _since_renewal(self, program: Program) -> tuple[float, float]:
        """Seconds held and served since it last counted as new."""
        renewal = program.note or _Renewal(0.0, 0.0)
        return program.held_s - renewal.held_s, program.attained_s - renewal.attained_s

    def _renew_starved(self, now: float) -> None:
        while (call := self._patience.first()) and self._patience.rank(call)[0] <= now:
            self._patience.drop(call)
            program = call.program
            program.note = _Renewal(program.held_s + now - call.arrived, program.attained_s)
            self._queue.put(call, (0, call.arrived))

    def _leave(self, call: Call) -> None:
        self._queue.drop(call)
        self._patience.drop(call)

    def _free(self, engine: EngineState) -> float:
        if engine.capacity_tokens is None:
            return math.inf
        return engine.capacity_tokens - running_tokens(engine)
