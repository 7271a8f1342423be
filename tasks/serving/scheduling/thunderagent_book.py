"""State of `thunderagent`: its options, a state per program, a book per engine."""

import math
from dataclasses import dataclass, field

from tutti.tasks.serving.scheduling.ledger import EngineState, Program


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
        """Tokens of all programs."""
        return int(sum(self.share(state, decayed_at) for state in self.states.values()))

    def used(self, decayed_at: float | None = None) -> int:
        """Tokens and buffers of all programs."""
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
