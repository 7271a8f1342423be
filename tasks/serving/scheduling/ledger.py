"""The ledger: engines, programs and calls as scheduling sees them. No clock, no network.

Everything is booked by call, never by program: a program's parallel calls are held, admitted and
ended each for itself, so none can overwrite another's account. Times are seconds of a monotonic
clock that the caller reads; a simulator's clock does as well.
"""

from dataclasses import dataclass, field
from typing import Any

from tutti.tasks.serving.scheduling.rate import Rate


@dataclass(frozen=True, slots=True)
class Usage:
    """What an engine says that a call took, in tokens."""

    prompt: int
    completion: int
    cached: int | None = None
    """Prompt tokens found in the prefix cache; None where the engine does not say."""


@dataclass(slots=True, eq=False)
class EngineState:
    """One engine, or one outside endpoint."""

    engine_id: str
    capacity_tokens: int | None = None
    """KV cache in tokens; None where nobody says (an outside endpoint): nothing is booked."""
    block_tokens: int = 16
    max_calls: int | None = None
    """Most calls in flight, for endpoints that limit it."""
    rate: Rate | None = None
    """Most calls and tokens a minute, for endpoints that limit them."""
    accepting: bool = True
    """Healthy, not draining, its circuit closed."""
    running: dict[str, "Call"] = field(default_factory=dict)
    allocated_tokens: int = 0
    """Tokens ever written to its cache: an age in tokens, by which a prefix is judged evicted."""
    prefill_token_s: float | None = None
    """Seconds that a prompt token takes, measured while it was idle."""
    note: Any = None
    """The policy's own account."""

    @property
    def open(self) -> bool:
        """Whether one more call may go there."""
        below = self.max_calls is None or len(self.running) < self.max_calls
        return self.accepting and below and (self.rate is None or self.rate.open)

    def blocks(self, tokens: int) -> int:
        """`tokens` rounded up to whole blocks, in tokens."""
        return -(-tokens // self.block_tokens) * self.block_tokens


@dataclass(slots=True, eq=False)
class Program:
    """One agent run: calls that share a growing prefix."""

    program_id: str
    since: float
    engine: EngineState | None = None
    """Where its prefix lies: the engine of its last call."""
    context_tokens: int = 0
    """Exact after its first answer: prompt and completion of its longest recent call."""
    calls_done: int = 0
    waiting: dict[str, "Call"] = field(default_factory=dict)
    running: dict[str, "Call"] = field(default_factory=dict)
    idle_since: float | None = None
    """When its last call ended; None while it has one."""
    last_use_tokens: int = 0
    """Its engine's `allocated_tokens` when its last call ended."""
    attained_s: float = 0.0
    """Seconds of engine time its calls took."""
    held_s: float = 0.0
    tool: str | None = None
    """The tool it runs now, where the agent says so."""
    prompt_bytes: int = 0
    """The size of its last answered prompt: what the next one has more is new text."""
    key: str = ""
    """Whose it is: who made its first call."""
    spent: dict[str, float] = field(default_factory=dict)
    """What its ended calls took, by unit; for whoever asks when it is over."""
    prompt_chain: tuple[int, ...] = ()
    """Hashes of that prompt's pieces, to see how far the next one is the same."""
    note: Any = None
    """The policy's own account."""

    @property
    def may_be_cached(self) -> bool:
        """Whether its prefix can still lie on its engine: not, when as much as the whole cache was
        written since it was used."""
        engine = self.engine
        if engine is None or engine.capacity_tokens is None:
            return engine is not None
        return engine.allocated_tokens - self.last_use_tokens < engine.capacity_tokens


@dataclass(slots=True, eq=False)
class Call:
    """One request, from its arrival to its end."""

    call_id: str
    program: Program
    arrived: float
    prompt_tokens: int
    """An estimate until the engine answers."""
    output_tokens: int
    """What it may produce: predicted, at most what it asked for."""
    key: str = ""
    """Whose limits and budget it counts against."""
    engine: EngineState | None = None
    admitted: float | None = None
    first_token: float | None = None
    produced: int = 0
    """Tokens streamed so far."""
    previous_tokens: int = 0
    """The program's context when the call was admitted: what could be found in the cache."""
    expected_tokens: float = 0.0
    """What its engine's rate was charged for it."""
    usage: Usage | None = None
    ended: float | None = None
    first: bool = False
    """The program's first call."""
    common: float = 1.0
    """The share of the program's context that this prompt begins with: 1 where it only grew."""

    @property
    def need_tokens(self) -> int:
        """KV tokens it holds at its end."""
        return self.prompt_tokens + max(self.output_tokens, self.produced)


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """An engine's own figures at a time; None is unknown."""

    at: float
    kv_usage: float | None = None
    running: float | None = None
    waiting: float | None = None
    preemptions_total: float | None = None
    prefix_queries_total: float | None = None
    prefix_hits_total: float | None = None


@dataclass(slots=True)
class Ledger:
    """All engines and programs."""

    engines: dict[str, EngineState] = field(default_factory=dict)
    programs: dict[str, Program] = field(default_factory=dict)
    waiting: dict[str, Call] = field(default_factory=dict)
    """Held calls, in order of arrival."""
    idle: dict[str, Program] = field(default_factory=dict)
    """Programs without a call, those that are longest so first."""

    def rest(self, program: Program, now: float) -> None:
        """A program has no call any more."""
        program.idle_since = now
        self.idle.pop(program.program_id, None)
        self.idle[program.program_id] = program

    def wake(self, program: Program) -> None:
        """A program has a call again."""
        program.idle_since = None
        self.idle.pop(program.program_id, None)

    def open_engines(self) -> list[EngineState]:
        """Engines that take one more call."""
        return [engine for engine in self.engines.values() if engine.open]
