"""`thunderagent`: a sweep every few seconds pauses and resumes whole programs.

The rule, in words. A program is reasoning (a call is in flight) or acting (a tool runs), and active
on one engine or paused. An engine's book is the tokens of its active programs, those of acting ones
times `acting_weight`, and `buffer_tokens` for each. A new program goes at once to the engine with
the least in its book where it fits, if no program is paused; else it is paused. Calls of active
programs always go, calls of paused ones wait. Every `interval_s`:
1. Who has waited for `wait_timeout_s` is resumed on its old engine, whatever the book says.
2. Paused programs are chosen, smallest first, while they fit in the sum of all engines' room: first
   those that wait with a later call, then new ones, then idle ones. The chosen are placed, largest
   first, each on the engine with most room. With `decay` an acting program counts 2^-t here, t
   seconds after its call.
3. On engines with more booked than they have, acting programs are paused, smallest first, until it
   fits; then reasoning ones are marked, to be paused when they answer.

Source: ThunderAgent (MIT), scheduler/router.py and backend/state.py at a7eef77, reimplemented from
a description. What we regard as its bugs are options, on as in the original: `ThunderAgentOptions`.
Ours: the sweep sorts once (the original sorts again for each program it pauses); an engine that
accepts no calls is left, not used on; forced resumption comes with a sweep, not between two.

Left out: estimates from characters (the caller's part), progress in steps of 20 chunks, shared
tokens (always 0 there), placing back where the prefix lies (it has no such thing).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tutti.tasks.serving.scheduling.ledger import Call, EngineState, Program
from tutti.tasks.serving.scheduling.policy import Admission, Policy
from tutti.tasks.serving.scheduling.reasons import HAS_WAITED, Reason, ReasonCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ThunderAgentOptions:
    """Options of the policy. What we regard as bugs of the original is on by default, and each can
    be turned off."""

    interval_s: float = 5.0
    acting_weight: float = 1.0
    decay: bool = False
    buffer_tokens: int = 100
    wait_timeout_s: float = 1800.0
    over_marking: bool = True
    """Marking frees nothing in the book: once one program is marked, all are."""
    decay_mismatch: bool = True
    """Decay counts in resuming only: programs resumed because of it exceed the book at once."""
    margin_at_full: bool = True
    """The buffer is required on an empty engine too: a program almost as large never resumes."""
    queue_blocks_arrivals: bool = True
    """A new program is paused while any other is, even if it would fit."""
    shared_status: bool = True
    """Parallel calls of a program overwrite each other's tokens and status."""
    stale_keys: bool = True
    """Order by the size when paused; "new" is a program that made one call, answered or not."""
    lost_usage: bool = True
    """A program whose call failed or was cancelled is reasoning until its next answer."""

    def __post_init__(self) -> None:
        if self.interval_s <= 0 or self.wait_timeout_s <= 0:
            raise ValueError(
                f"thunderagent: interval_s {self.interval_s} and wait_timeout_s "
                f"{self.wait_timeout_s} must be above 0"
            )


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
    """Tokens of each call in flight: prompt and output so far."""


class EngineBook:
    """Programs that are active on one engine, and the tokens booked for them."""

    def __init__(self, engine: EngineState, rules: ThunderAgentOptions) -> None:
        self.engine, self.rules = engine, rules
        self.states: dict[str, ThunderAgentState] = {}

    def share(self, state: ThunderAgentState, decayed_at: float | None = None) -> float:
        """Tokens of one program; those of acting programs are weighted, or decay with time."""
        if state.reasoning:
            return state.tokens
        if decayed_at is None:
            return self.rules.acting_weight * state.tokens
        return state.tokens * math.exp2(state.acting_since - decayed_at)

    def tokens(self, decayed_at: float | None = None) -> int:
        return int(sum(self.share(state, decayed_at) for state in self.states.values()))

    def used(self, decayed_at: float | None = None) -> int:
        return self.tokens(decayed_at) + self.rules.buffer_tokens * len(self.states)

    def free(self, decayed_at: float | None = None) -> float:
        """Free tokens; negative if overbooked."""
        if self.engine.capacity_tokens is None:
            return math.inf
        return self.engine.capacity_tokens - self.used(decayed_at)

    def takes_any(self) -> bool:
        """Whether it is empty and an empty engine takes a program of any size."""
        return not self.rules.margin_at_full and not self.states


def rank(state: ThunderAgentState, rules: ThunderAgentOptions) -> tuple[int, int]:
    """Order of resumption: waiting again, new, idle; within each, the smallest first."""
    if rules.stale_keys:
        group = 1 if state.steps == 1 else 0 if state.reasoning else 2
        return group, state.paused_tokens
    group = 2 if not state.reasoning else 0 if state.program.calls_done else 1
    return group, state.tokens


ON_TIME = 0.9  # a `ticked` earlier than this share of the interval was not caused by the timer


class ThunderAgent(Policy):
    """Pauses and resumes whole programs by their tokens; `options` are the fields of
    `ThunderAgentOptions`."""

    name = "thunderagent"

    def __init__(self, **options: Any) -> None:
        self.rules = ThunderAgentOptions(**options)
        self.tick_s = self.rules.interval_s
        self._swept = -math.inf
        self._paused: dict[str, ThunderAgentState] = {}
        self._ready: dict[str, Call] = {}
        """Waiting calls of active programs: each goes as soon as its engine takes one."""

    # Events

    def arrived(self, call: Call, now: float) -> None:
        """Make the call ready if its program is active; place or pause a new program."""
        program = call.program
        if program.note is None:
            program.note = ThunderAgentState(program)
        state: ThunderAgentState = program.note
        state.steps += 1
        state.reasoning = True
        state.calls[call.call_id] = call.prompt_tokens
        state.tokens = call.prompt_tokens if self.rules.shared_status else sum(state.calls.values())
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
        state: ThunderAgentState = call.program.note
        state.calls.pop(call.call_id, None)
        if self.rules.lost_usage:
            return
        if state.calls or call.program.calls_done:
            self._answered(state, call, now)
        else:
            self._forget(call.program)

    def admitted(self, call: Call, now: float) -> None:
        """Record the call as sent; after a failover its program moves to the new engine."""
        self._ready.pop(call.call_id, None)
        state: ThunderAgentState = call.program.note
        if state.engine is not None and state.engine is not call.engine:
            del self._book(state.engine).states[call.program.program_id]
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
        """Mark the program as acting; pause it if it was marked."""
        state: ThunderAgentState = call.program.note
        state.calls.pop(call.call_id, None)
        if call.usage is not None or not self.rules.lost_usage:
            self._answered(state, call, now)

    def gone(self, program: Program, now: float, reason: Reason) -> None:
        self._forget(program)

    def ticked(self, now: float) -> None:
        """Run the sweep: resume, then pause."""
        if now - self._swept < self.rules.interval_s * ON_TIME:
            return
        self._swept = now
        self._resume_overdue(now)
        self._resume(now)
        for engine in self.ledger.engines.values():
            self._shed(engine, now)

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

    def booked_tokens(self, engine: EngineState) -> int:
        return self._book(engine).used()

    def reason(self, call: Call) -> Reason:
        """Whether its program is paused, or its engine is full or unavailable."""
        state: ThunderAgentState = call.program.note
        if state.engine is None:
            text = f"paused with {state.tokens} tokens, {len(self._paused)} programs are paused"
            return Reason(ReasonCode.PAUSED, text)
        return Reason(ReasonCode.ENGINE_FULL, f"{state.engine.engine_id} takes no more calls")

    def _book(self, engine: EngineState) -> EngineBook:
        if not isinstance(engine.note, EngineBook):
            engine.note = EngineBook(engine, self.rules)
        return engine.note

    def _accepting(self) -> list[EngineState]:
        return [engine for engine in self.ledger.engines.values() if engine.accepting]

    # Transitions

    def _room_for_new(self, state: ThunderAgentState) -> EngineState | None:
        if self._paused and self.rules.queue_blocks_arrivals:
            return None
        need = state.tokens + self.rules.buffer_tokens
        books = [self._book(engine) for engine in self._accepting()]
        fitting = [book for book in books if book.free() >= need or book.takes_any()]
        found = min(fitting, key=lambda book: book.tokens(), default=None)
        return None if found is None else found.engine

    def _activate(self, state: ThunderAgentState, engine: EngineState) -> None:
        program = state.program
        self._paused.pop(program.program_id, None)
        self._book(engine).states[program.program_id] = state
        state.engine = engine
        self._ready |= program.waiting

    def _pause(self, state: ThunderAgentState, reason: Reason) -> None:
        name = state.program.program_id
        if state.engine is not None:
            del self._book(state.engine).states[name]
        state.origin, state.engine = state.engine, None
        state.paused_tokens = state.tokens
        self._paused[name] = state
        self.log("pause", state.program, None, reason)

    def _answered(self, state: ThunderAgentState, call: Call, now: float) -> None:
        """End a call: the program acts after its last running call; in the original, after any."""
        if state.calls and not self.rules.shared_status:
            state.tokens = sum(state.calls.values())
            return
        usage = call.usage if self.rules.shared_status else None
        context = state.program.context_tokens
        state.tokens = usage.prompt + usage.completion if usage else context
        state.reasoning, state.acting_since = False, now
        if state.marked and state.engine is not None:
            state.marked = False
            self._pause(state, Reason(ReasonCode.MARKED, "it was marked"))

    def _forget(self, program: Program) -> None:
        state: ThunderAgentState | None = program.note
        if state is not None and state.engine is not None:
            del self._book(state.engine).states[program.program_id]
        self._paused.pop(program.program_id, None)
        program.note = None

    # The sweep

    def _resume_overdue(self, now: float) -> None:
        engines = self._accepting()
        if not engines:
            return
        for state in list(self._paused.values()):
            first = next(iter(state.program.waiting.values()), None)
            if first is not None and now - first.arrived >= self.rules.wait_timeout_s:
                origin = state.origin if state.origin in engines else None
                fewest = min(engines, key=lambda engine: len(self._book(engine).states))
                self._activate(state, origin or fewest)
                self.log("resume", state.program, first, HAS_WAITED)

    def _resume(self, now: float) -> None:
        buffer, decayed_at = self.rules.buffer_tokens, now if self.rules.decay else None
        books = [self._book(engine) for engine in self._accepting()]
        room = {book: book.free(decayed_at) for book in books}
        room = {book: free for book, free in room.items() if free > buffer or book.takes_any()}
        empty = (free for book, free in room.items() if book.takes_any())
        chosen = self._chosen(sum(room.values()), max(empty, default=math.inf))
        for state in sorted(chosen, key=lambda state: -state.tokens):
            need = state.tokens + buffer
            fitting = [book for book, free in room.items() if free >= need]
            fitting = fitting or [book for book in room if book.takes_any()]
            if not fitting:
                continue  # smaller ones may still fit
            book = max(fitting, key=lambda book: room[book])
            room[book] -= need
            if room[book] <= buffer:
                del room[book]
            self._activate(state, book.engine)
            text = f"it fits on {book.engine.engine_id}"
            self.log("resume", state.program, None, Reason(ReasonCode.FITS, text))

    def _chosen(self, room: float, largest: float) -> list[ThunderAgentState]:
        """Paused programs, in order, that fit in `room`; an empty engine of `largest` fits any."""
        chosen = []
        for state in sorted(self._paused.values(), key=lambda state: rank(state, self.rules)):
            need = min(state.tokens + self.rules.buffer_tokens, largest)
            if need <= room:
                chosen.append(state)
                room -= need
        return chosen

    def _shed(self, engine: EngineState, now: float) -> None:
        rules, book = self.rules, self._book(engine)
        decayed_at = now if rules.decay and not rules.decay_mismatch else None
        over = -book.free(decayed_at)
        states = sorted(book.states.values(), key=lambda state: state.tokens)
        if not rules.over_marking:  # marked programs will be paused
            leaving = (state for state in states if state.marked and state.reasoning)
            over -= sum(state.tokens + rules.buffer_tokens for state in leaving)
        shed = [state for state in states if not state.reasoning]
        shed += [state for state in states if state.reasoning and not state.marked]
        for state in shed if rules.margin_at_full else shed[:-1]:
            if over < 1:
                return
            share = book.share(state, decayed_at) + rules.buffer_tokens
            if state.reasoning:
                state.marked = True
                over -= 0 if rules.over_marking else share
            else:
                over -= share
                text = f"{engine.engine_id} is over its capacity"
                self._pause(state, Reason(ReasonCode.OVER_CAPACITY, text))
