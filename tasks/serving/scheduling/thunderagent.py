"""`thunderagent`: a sweep every few seconds pauses and resumes whole programs.

Rule: A program is reasoning (a call is in flight) or acting (a tool runs), and active on one engine
or paused. An engine's book is the tokens of its active programs, those of acting ones times
`acting_weight`, and `buffer_tokens` for each. If no program is paused, a new program goes at once
to the engine with the smallest book where it fits; otherwise it is paused. Calls of active programs
always go, calls of paused ones wait. Every `interval_s`:
1. A program that has waited for `wait_timeout_s` is resumed on its old engine, regardless of the
  book.
2. Paused programs are chosen, smallest first, while they fit in the sum of all engines' room: first
  those that wait with a later call, then new ones, then idle ones. The chosen are placed, largest
  first, each on the engine with most room. With `decay` an acting program counts 2^-t here, t
  seconds after its call.
3. On engines with more booked than they have, acting programs are paused, smallest first, until it
  fits; if it still does not, all reasoning ones are marked, to be paused when they answer.

Source: ThunderAgent (MIT), scheduler/router.py and backend/state.py at a7eef77, reimplemented from
a description, with what we regard as its bugs: parallel calls of a program overwrite each other's
tokens and status; a call that fails leaves its program reasoning; paused programs are ordered by
their size when paused; `decay` counts in step 2 only; a mark frees nothing in the book. Ours: the
sweep sorts once (the original sorts again for each program it pauses); programs leave an engine
that accepts no calls; forced resumption comes with a sweep, not between two.

Left out: estimates from characters (the caller's part), progress in steps of 20 chunks, shared
tokens (always 0 there), placing a program back where its prefix is (it has no such feature).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from tutti.tasks.serving.scheduling.ledger import Call, EngineState, Program
from tutti.tasks.serving.scheduling.policy import Admission, Policy
from tutti.tasks.serving.scheduling.reasons import HAS_WAITED, Reason, ReasonCode

ON_TIME = 0.9  # a `ticked` earlier than this share of the interval was not caused by the timer


@dataclass(slots=True, eq=False)
class ThunderAgentState:
    """What the original stores per program."""

    program: Program
    engine: EngineState | None = None
    """The engine where it is active; None while paused."""
    origin: EngineState | None = None
    """The engine where it was active before it was paused."""
    tokens: int = 0
    paused_tokens: int = 0
    steps: int = 0
    reasoning: bool = True
    acting_since: float = 0.0
    marked: bool = False
    calls: dict[str, int] = field(default_factory=dict)

    @property
    def rank(self) -> tuple[int, int]:
        """The order of resumption: waiting again, new, idle; within each, the smallest first."""
        return 1 if self.steps == 1 else 0 if self.reasoning else 2, self.paused_tokens


States = dict[str, ThunderAgentState]


class ThunderAgent(Policy):
    """Pauses and resumes whole programs by their tokens."""

    name = "thunderagent"

    def __init__(
        self,
        *,
        interval_s: float = 5.0,
        acting_weight: float = 1.0,
        decay: bool = False,
        buffer_tokens: int = 100,
        wait_timeout_s: float = 1800.0,
    ) -> None:
        if interval_s <= 0 or wait_timeout_s <= 0:
            raise ValueError(
                f"thunderagent: interval_s {interval_s} and wait_timeout_s {wait_timeout_s} must "
                "be above 0"
            )
        self.tick_s = interval_s
        self._interval_s, self._wait_timeout_s = interval_s, wait_timeout_s
        self._acting_weight, self._decay = acting_weight, decay
        self._buffer_tokens = buffer_tokens
        self._swept = -math.inf
        self._paused: States = {}
        self._ready: dict[str, Call] = {}
        """Waiting calls of active programs: each goes as soon as its engine takes one."""

    def arrived(self, call: Call, now: float) -> None:
        """Make the call ready if its program is active; place or pause a new program."""
        program = call.program
        if program.note is None:
            program.note = ThunderAgentState(program)
        state: ThunderAgentState = program.note
        state.steps += 1
        state.reasoning = True
        state.calls[call.call_id] = state.tokens = call.prompt_tokens
        if state.engine is not None:
            self._ready[call.call_id] = call
        elif program.program_id not in self._paused:
            engine = self._room_for_new(state)
            if engine is None:
                self._pause(state, Reason(ReasonCode.NO_ROOM, "no room for a new program"))
            else:
                self._activate(state, engine)

    def withdrawn(self, call: Call, now: float) -> None:
        """Remove the call. The original is not notified of disconnects and keeps it."""
        self._ready.pop(call.call_id, None)
        call.program.note.calls.pop(call.call_id, None)

    def admitted(self, call: Call, now: float) -> None:
        """Record the call as sent; after a failover its program moves to the new engine."""
        self._ready.pop(call.call_id, None)
        state: ThunderAgentState = call.program.note
        if state.engine is not None and state.engine is not call.engine:
            del self._states(state.engine)[call.program.program_id]
            assert call.engine is not None
            self._activate(state, call.engine)
        self.progressed(call, now)

    def progressed(self, call: Call, now: float) -> None:
        state: ThunderAgentState | None = call.program.note
        if state is None or call.call_id not in state.calls:
            return
        tokens = call.prompt_tokens + call.produced
        grown = tokens - state.calls[call.call_id]
        state.calls[call.call_id] = tokens
        state.tokens += grown

    def finished(self, call: Call, now: float) -> None:
        """Mark the program as acting if the call was answered; pause it if it was marked."""
        state: ThunderAgentState = call.program.note
        state.calls.pop(call.call_id, None)
        if call.usage is None:
            return
        state.tokens = call.usage.prompt + call.usage.completion
        state.reasoning, state.acting_since = False, now
        if state.marked and state.engine is not None:
            state.marked = False
            self._pause(state, Reason(ReasonCode.MARKED, "it was marked"))

    def gone(self, program: Program, now: float, reason: Reason) -> None:
        state: ThunderAgentState | None = program.note
        if state is not None and state.engine is not None:
            del self._states(state.engine)[program.program_id]
        self._paused.pop(program.program_id, None)
        program.note = None

    def ticked(self, now: float) -> None:
        """Run the sweep: resume, then pause."""
        if now - self._swept < self._interval_s * ON_TIME:
            return
        self._swept = now
        self._resume_overdue(now)
        self._resume(now)
        for engine in self.ledger.engines.values():
            self._shed(engine)

    def admit(self, now: float) -> Iterable[Admission]:
        for call in list(self._ready.values()):
            state: ThunderAgentState = call.program.note
            engine = state.engine
            if engine is None:  # its program was paused meanwhile; resuming makes it ready again
                del self._ready[call.call_id]
            elif engine.open:
                yield call, engine
            elif not engine.accepting and not call.program.running:
                del self._ready[call.call_id]
                text = f"{engine.engine_id} accepts no calls"
                self._pause(state, Reason(ReasonCode.NO_ENGINE, text))

    def reason(self, call: Call) -> Reason:
        """Return whether the call's program is paused, or its engine is full or unavailable."""
        state: ThunderAgentState = call.program.note
        if state.engine is None:
            text = f"paused with {state.tokens} tokens, {len(self._paused)} programs are paused"
            return Reason(ReasonCode.PAUSED, text)
        return Reason(ReasonCode.ENGINE_FULL, f"{state.engine.engine_id} takes no more calls")

    def _states(self, engine: EngineState) -> States:
        if engine.note is None:
            engine.note = {}
        states: States = engine.note
        return states

    def _tokens(self, engine: EngineState, decayed_at: float | None = None) -> int:
        """Return the tokens of the active programs; those of acting programs are weighted, or decay
        with time."""
        total = 0.0
        for state in self._states(engine).values():
            if state.reasoning:
                total += state.tokens
            elif decayed_at is None:
                total += self._acting_weight * state.tokens
            else:
                total += state.tokens * math.exp2(state.acting_since - decayed_at)
        return int(total)

    def booked_tokens(self, engine: EngineState) -> int:
        return self._tokens(engine) + self._buffer_tokens * len(self._states(engine))

    def _free(self, engine: EngineState, decayed_at: float | None = None) -> float:
        if engine.capacity_tokens is None:
            return math.inf
        used = self._tokens(engine, decayed_at) + self._buffer_tokens * len(self._states(engine))
        return engine.capacity_tokens - used

    def _accepting(self) -> list[EngineState]:
        return [engine for engine in self.ledger.engines.values() if engine.accepting]

    def _room_for_new(self, state: ThunderAgentState) -> EngineState | None:
        if self._paused:
            return None
        need = state.tokens + self._buffer_tokens
        fitting = [engine for engine in self._accepting() if self._free(engine) >= need]
        return min(fitting, key=self._tokens, default=None)

    def _activate(self, state: ThunderAgentState, engine: EngineState) -> None:
        program = state.program
        self._paused.pop(program.program_id, None)
        self._states(engine)[program.program_id] = state
        state.engine = engine
        self._ready |= program.waiting

    def _pause(self, state: ThunderAgentState, reason: Reason) -> None:
        name = state.program.program_id
        if state.engine is not None:
            del self._states(state.engine)[name]
        state.origin, state.engine = state.engine, None
        state.paused_tokens = state.tokens
        self._paused[name] = state
        self.log("pause", state.program, None, reason)

    def _resume_overdue(self, now: float) -> None:
        engines = self._accepting()
        if not engines:
            return
        for state in list(self._paused.values()):
            first = next(iter(state.program.waiting.values()), None)
            if first is not None and now - first.arrived >= self._wait_timeout_s:
                origin = state.origin if state.origin in engines else None
                fewest = min(engines, key=lambda engine: len(self._states(engine)))
                self._activate(state, origin or fewest)
                self.log("resume", state.program, first, HAS_WAITED)

    def _resume(self, now: float) -> None:
        buffer, decayed_at = self._buffer_tokens, now if self._decay else None
        room = {engine: self._free(engine, decayed_at) for engine in self._accepting()}
        room = {engine: free for engine, free in room.items() if free > buffer}
        left, chosen = sum(room.values()), list[ThunderAgentState]()
        for state in sorted(self._paused.values(), key=lambda state: state.rank):
            if state.tokens + buffer <= left:
                chosen.append(state)
                left -= state.tokens + buffer
        for state in sorted(chosen, key=lambda state: -state.tokens):
            need = state.tokens + buffer
            fitting = [engine for engine, free in room.items() if free >= need]
            if not fitting:
                continue  # smaller ones may still fit
            engine = max(fitting, key=room.__getitem__)
            room[engine] -= need
            if room[engine] <= buffer:
                del room[engine]
            self._activate(state, engine)
            text = f"it fits on {engine.engine_id}"
            self.log("resume", state.program, None, Reason(ReasonCode.FITS, text))

    def _shed(self, engine: EngineState) -> None:
        over = -self._free(engine)
        states = sorted(self._states(engine).values(), key=lambda state: state.tokens)
        for state in states:
            if over >= 1 and not state.reasoning:
                over -= self._acting_weight * state.tokens + self._buffer_tokens
                text = f"{engine.engine_id} is over its capacity"
                self._pause(state, Reason(ReasonCode.OVER_CAPACITY, text))
        if over >= 1:
            for state in states:
                state.marked |= state.reasoning
