"""`continuum`: a program's prefix is pinned for a while after each call; else first come, first
served.

The rule, in words. When a program's last call ends, its context stays booked on its engine for a
time to live, by `rule`: `fixed`, 2 s if its tool takes at most 2 s on average or was
never seen, else none; `ttl`, the duration t seen of its tool that makes F(t) * gain - t largest,
where gain = `eta` * mean wait of programs that came back unpinned + seconds to prefill the context
again. A pin ends with its time if the program has no call waiting, or when its call is admitted.
Waiting calls go in the order: of pinned programs, then of programs by their arrival. The first goes
when it fits next to what running calls will hold and pins hold, on its own engine if it can be (a
pinned one only there), else where there is most room; no call overtakes it on an engine that it
could use.

Source: Continuum (arXiv 2511.02230, later CacheTTL), and the public preview of its vLLM fork, whose
rule is `fixed`; reimplemented from a description.

Differences from the original, which runs in the engine:
* A pin only books tokens; whether the prefix stays cached is up to the engine's LRU.
* Running calls are booked with what they will hold at their end. So there is no preemption, no
  priority class of preempted calls, and no preempting of the latest program. Instead, pins are
  removed when running calls outgrow their booking, or when an engine runs nothing and the first
  call still does not fit: the latest program's pin first (with `fixed`, in the second case, only
  expired pins).
* A call that fits nowhere goes to an engine with nothing running and nothing else pinned.
* There may be several engines; the original has one.
* The original knows the last step and pins nothing after it; here the program is released then,
  which unpins it.
* A tool is named by `Program.tool`, best set before the call ends; its duration is the time
  between two calls.
* Prefill seconds per token are measured: times to first token over uncached prompt tokens.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from math import log

from tutti.tasks.serving.scheduling.forecast import Quantiles
from tutti.tasks.serving.scheduling.ledger import Call, EngineState, Program
from tutti.tasks.serving.scheduling.policy import (
    Admission,
    Policy,
    RankedCalls,
    roomiest,
    running_tokens,
)
from tutti.tasks.serving.scheduling.reasons import NO_ENGINE, Reason, ReasonCode

THRESHOLD_S = 2.0
ENOUGH = 100
PRIOR_S = 1.0
SEEN = 512  # the last durations of a tool that are kept
NAMES = 1024  # agents name their tools: beyond this many, a new name shares one pool


class ToolGaps:
    """Durations by tool name; None is a pool of its own."""

    def __init__(self) -> None:
        self._tools: dict[str | None, Quantiles] = {}

    def add(self, tool: str | None, seconds: float) -> None:
        name = tool if tool in self._tools or len(self._tools) < NAMES else None
        self._tools.setdefault(name, Quantiles(SEEN)).add(seconds)

    def fixed_s(self, tool: str | None) -> float:
        """Seconds to keep a prefix, by the fixed rule."""
        seen = self._tools.get(tool)
        short = seen is None or sum(seen.sorted) / len(seen) <= THRESHOLD_S
        return THRESHOLD_S if short else 0.0

    def best_s(self, tool: str | None, gain_s: float) -> float:
        """Seconds to keep a prefix that saves `gain_s`, by the paper's rule."""
        seen = self._tools.get(tool)
        if seen is None or len(seen) < ENOUGH:
            return PRIOR_S * log(gain_s / PRIOR_S) if gain_s > PRIOR_S else 0.0
        count = len(seen)
        values = ((n / count * gain_s - s, s) for n, s in enumerate(seen.sorted, start=1))
        value, seconds = max(values)
        return seconds if value > 0 else 0.0


RULES = ("fixed", "ttl")


@dataclass(frozen=True, slots=True, eq=False)
class PinnedContext:
    """A program's context that stays booked between calls."""

    program: Program
    engine: EngineState
    tokens: int
    until: float


@dataclass(slots=True, eq=False)
class _Gap:
    """The time of a program between two calls."""

    since: float
    tool: str | None


class Continuum(Policy):
    """Pins a program's prefix for a while after each call; else first come, first served."""

    name = "continuum"

    def __init__(self, *, rule: str = "fixed", eta: float = 1.0) -> None:
        if rule not in RULES:
            raise ValueError(f"{self.name}: the rule is one of {', '.join(RULES)}, not {rule!r}")
        self.rule, self.eta = rule, eta
        self.gaps = ToolGaps()
        self.pins: dict[str, PinnedContext] = {}
        self._queue = RankedCalls()
        self._evicted_s, self._evicted = 0.0, 0
        self._prefill_s, self._prefilled = 0.0, 0

    def arrived(self, call: Call, now: float) -> None:
        """Queue the call and record the gap before it as its program's tool duration."""
        program, gap = call.program, call.program.note
        if isinstance(gap, _Gap):
            self.gaps.add(program.tool or gap.tool, now - gap.since)
        program.note = None
        pin = self.pins.get(program.program_id)
        if pin is not None and pin.until < now:
            self._unpin(program)
        self._put(call)

    def withdrawn(self, call: Call, now: float) -> None:
        self._queue.drop(call)

    def admitted(self, call: Call, now: float) -> None:
        """Book the call's tokens instead of the program's pin; update its program's other calls."""
        waited = self._queue.drop(call)
        if waited and call.program.calls_done and call.program.program_id not in self.pins:
            self._evicted_s += now - call.arrived
            self._evicted += 1
        self._unpin(call.program)
        self._relieve(call.engine)

    def progressed(self, call: Call, now: float) -> None:
        """Note the tokens produced: the call may outgrow its booking."""
        if call.produced > call.output_tokens:
            self._relieve(call.engine)

    def finished(self, call: Call, now: float) -> None:
        """Pin the program's context if this was its last running call and pinning pays off."""
        program, engine, usage = call.program, call.engine, call.usage
        if usage is None or engine is None:
            return
        if call.first_token is not None and call.admitted is not None:
            cached = call.previous_tokens if usage.cached is None else usage.cached
            self._prefill_s += call.first_token - call.admitted
            self._prefilled += max(usage.prompt - cached, 0)
        if not program.running and not program.waiting:
            program.note = _Gap(now, program.tool)
            self._pin(program, engine, now)

    def gone(self, program: Program, now: float, reason: Reason) -> None:
        self._unpin(program)
        program.note = None

    def changed(self, engine: EngineState, now: float) -> None:
        """Remove pins on an engine that left or lost its cache."""
        if engine.accepting and engine.engine_id in self.ledger.engines:
            self._relieve(engine)
            return
        for pin in self._pins_on(engine):
            self._unpin(pin.program)

    def ticked(self, now: float) -> None:
        for pin in list(self.pins.values()):
            if pin.until <= now and not pin.program.waiting:
                self._unpin(pin.program)

    def wake_at(self, now: float) -> float | None:
        return min((pin.until for pin in self.pins.values() if pin.until > now), default=None)

    def admit(self, now: float) -> Iterable[Admission]:
        """Yield the first call in order whose engine no earlier call waits for."""
        self.ticked(now)
        wanted: set[EngineState] = set()
        while not wanted.issuperset(self.ledger.open_engines()):
            call = next((c for c in self._queue if not wanted.issuperset(self._engines(c))), None)
            if call is None:
                return
            engines = [engine for engine in self._engines(call) if engine not in wanted]
            found = roomiest(call, engines, partial(self._free, call))
            idle = (engine for engine in engines if not engine.running)
            found = found or next((e for e in idle if self._make_room(call, e, now)), None)
            if found is None:
                wanted.update(engines)
            else:
                yield call, found

    def booked_tokens(self, engine: EngineState) -> int:
        return running_tokens(engine) + sum(pin.tokens for pin in self._pins_on(engine))

    def reason(self, call: Call) -> Reason:
        """The length of the queue and the number of pinned programs."""
        if not self.ledger.open_engines():
            return NO_ENGINE
        text = f"{len(self._queue)} wait, {len(self.pins)} programs are pinned"
        return Reason(ReasonCode.QUEUED, text)

    def _engines(self, call: Call) -> list[EngineState]:
        pin = self.pins.get(call.program.program_id)
        engines = self.ledger.open_engines() if pin is None else [pin.engine]
        return [engine for engine in engines if engine.open]

    def _free(self, call: Call, engine: EngineState) -> float:
        if engine.capacity_tokens is None:
            return math.inf
        pin = self.pins.get(call.program.program_id)
        own = pin.tokens if pin is not None and pin.engine is engine else 0
        return engine.capacity_tokens - self.booked_tokens(engine) + own

    def _make_room(self, call: Call, engine: EngineState, now: float) -> bool:
        need, kept = engine.blocks(call.need_tokens), 0
        for pin in reversed(self._pins_on(engine)):
            if self._free(call, engine) >= need:
                return True
            if pin.program is call.program:
                continue
            if self.rule == "fixed" and pin.until > now:
                kept += 1
            else:
                self._unpin(pin.program)
        return not kept or self._free(call, engine) >= need

    def _relieve(self, engine: EngineState | None) -> None:
        if engine is None or engine.capacity_tokens is None:
            return
        for pin in reversed(self._pins_on(engine)):
            if self.booked_tokens(engine) <= engine.capacity_tokens:
                return
            self._unpin(pin.program)

    def _pins_on(self, engine: EngineState) -> list[PinnedContext]:
        pins = (pin for pin in self.pins.values() if pin.engine is engine)
        return sorted(pins, key=lambda pin: pin.program.since)

    def _pin(self, program: Program, engine: EngineState, now: float) -> None:
        capacity, tokens = engine.capacity_tokens, engine.blocks(program.context_tokens)
        if capacity is None or not engine.accepting or program.engine is not engine:
            return
        if self.booked_tokens(engine) + tokens > capacity:
            return
        seconds = self._time_to_live(program)
        if seconds > 0:
            self.pins[program.program_id] = PinnedContext(program, engine, tokens, now + seconds)

    def _time_to_live(self, program: Program) -> float:
        if self.rule == "fixed":
            return self.gaps.fixed_s(program.tool)
        wait_s = self._evicted_s / max(self._evicted, 1)
        reload_s = program.context_tokens * self._prefill_s / max(self._prefilled, 1)
        return self.gaps.best_s(program.tool, wait_s * self.eta + reload_s)

    def _unpin(self, program: Program) -> None:
        if self.pins.pop(program.program_id, None) is not None:
            for call in program.waiting.values():
                self._put(call)

    def _put(self, call: Call) -> None:
        pinned = call.program.program_id in self.pins
        self._queue.put(call, (0 if pinned else 1, call.program.since, call.arrived))
