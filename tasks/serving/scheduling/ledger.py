"""The ledger: engines, programs and calls as scheduling sees them. It has no clock and no network.

Tokens are booked by call, never by program: parallel calls of a program are held, admitted and
ended separately, so that none overwrites another's booking. A provider's limits per minute (`Rate`)
are respected before it refuses calls. Times are seconds of a monotonic clock that the caller reads;
a simulated clock works too.
"""

from dataclasses import dataclass, field
from typing import Any

from tutti.storage import ProgramClock

MINUTE_S = 60.0
FIRST_OUTPUT = 256.0
WEIGHT_OF_ONE = 0.1


@dataclass(slots=True)
class TokenBucket:
    """A token bucket: one second's allowance may be used at once, so calls are spread over the
    minute. It is filled so that no minute, whenever it begins, exceeds the limit."""

    per_minute: float
    level: float = field(init=False)
    at: float | None = None
    """When `level` was last updated; None before the first update."""

    def __post_init__(self) -> None:
        self.level = self.depth

    @property
    def depth(self) -> float:
        """The most that may be used at once."""
        return max(1.0, self.per_minute / MINUTE_S)

    @property
    def per_s(self) -> float:
        """Refill rate: a full bucket plus one minute's refill equal the limit; a call that just
        fits when the minute ends belongs to the next one."""
        return (self.per_minute - self.depth + 1.0) / MINUTE_S

    def fill(self, now: float) -> None:
        """Refill for the time passed; a clock that goes backwards adds nothing."""
        if self.at is not None and now > self.at:
            self.level = min(self.depth, self.level + (now - self.at) * self.per_s)
        self.at = now

    def ready_in_s(self, amount: float) -> float:
        """Seconds until the level reaches `amount`."""
        return max(0.0, amount - self.level) / self.per_s


@dataclass(slots=True)
class Rate:
    """An endpoint's limits of calls and tokens per minute. A call is charged when it is sent, with
    its expected tokens, and corrected when it has ended. A call of more tokens than the bucket
    holds is sent like any other and leaves the level negative."""

    requests: TokenBucket | None = None
    tokens: TokenBucket | None = None
    usual_output: float = FIRST_OUTPUT
    """Moving average of the tokens of an answer. Without it, calls without `max_tokens` would be
    charged a full context."""

    @classmethod
    def of(cls, requests_per_minute: int | None, tokens_per_minute: int | None) -> "Rate | None":
        """The limiter of an endpoint; None if it has no limits."""
        if requests_per_minute is None and tokens_per_minute is None:
            return None
        requests = None if requests_per_minute is None else TokenBucket(float(requests_per_minute))
        return cls(
            requests, None if tokens_per_minute is None else TokenBucket(float(tokens_per_minute))
        )

    @property
    def open(self) -> bool:
        """Whether one more call may be sent, as of the last `fill`. The call's size is ignored: a
        large one would otherwise wait behind every small one."""
        # Rounding of a timer's time must not cost another timer round.
        enough = self.requests is None or self.requests.level >= 1.0 - 1e-9
        return enough and (self.tokens is None or self.tokens.level > 0.0)

    def fill(self, now: float) -> None:
        """Refill for the time passed."""
        for bucket in (self.requests, self.tokens):
            if bucket is not None:
                bucket.fill(now)

    def take(self, prompt_tokens: int, output_tokens: int) -> float:
        """Charge a call that may produce at most `output_tokens`; return its expected tokens."""
        expected = prompt_tokens + min(float(output_tokens), self.usual_output)
        if self.requests is not None:
            self.requests.level -= 1.0
        if self.tokens is not None:
            self.tokens.level -= expected
        return expected

    def correct(self, expected: float, prompt_tokens: int, output_tokens: int) -> None:
        """Correct the charge of a call that has ended to its actual tokens."""
        self.usual_output += (output_tokens - self.usual_output) * WEIGHT_OF_ONE
        if self.tokens is not None:
            used = prompt_tokens + output_tokens
            self.tokens.level = min(self.tokens.depth, self.tokens.level + expected - used)

    def ready_in_s(self) -> float:
        """Seconds until one more call may be sent."""
        waits = [0.0]
        if self.requests is not None:
            waits.append(self.requests.ready_in_s(1.0))
        if self.tokens is not None:
            waits.append(self.tokens.ready_in_s(1.0))
        return max(waits)

    def __str__(self) -> str:
        named = (("requests", self.requests), ("tokens", self.tokens))
        return " and ".join(f"{b.per_minute:.0f} {name}" for name, b in named if b) + " a minute"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a call, as reported by the engine."""

    prompt: int
    completion: int
    cached: int | None = None
    """Prompt tokens found in the prefix cache; None if the engine does not report them."""


@dataclass(slots=True, eq=False)
class EngineState:
    """One engine or external endpoint."""

    engine_id: str
    capacity_tokens: int | None = None
    """KV cache in tokens; None if unknown (an external endpoint): nothing is booked then."""
    block_tokens: int = 16
    max_calls: int | None = None
    rate: Rate | None = None
    accepting: bool = True
    """Whether it is healthy, not draining, and its circuit breaker is closed."""
    running: dict[str, "Call"] = field(default_factory=dict)
    allocated_tokens: int = 0
    """Tokens ever written to its cache: the clock by which prefixes are judged evicted."""
    prefill_token_s: float | None = None
    """Prefill seconds per prompt token, measured while the engine was idle."""
    note: Any = None

    @property
    def open(self) -> bool:
        """Whether it takes one more call."""
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
    """The engine of its last call, which holds its prefix."""
    context_tokens: int = 0
    """Prompt and completion tokens of its longest recent call; exact after its first answer."""
    calls_done: int = 0
    steps: int = 0
    """The number of its last call, for programs that do not number their calls."""
    waiting: dict[str, "Call"] = field(default_factory=dict)
    running: dict[str, "Call"] = field(default_factory=dict)
    idle_since: float | None = None
    """When its last call ended; None while a call is waiting or running."""
    last_use_tokens: int = 0
    """Its engine's `allocated_tokens` when its last call ended."""
    attained_s: float = 0.0
    held_s: float = 0.0
    tool: str | None = None
    """The tool that it runs now, if the agent reports it."""
    prompt_bytes: int = 0
    """Size of its last answered prompt: the excess of the next prompt over it is new text."""
    key: str = ""
    spent: dict[str, float] = field(default_factory=dict)
    """Usage of its ended calls by unit, reported when it ends."""
    clock: ProgramClock = field(default_factory=ProgramClock)
    """What it waited in its ended calls."""
    prompt_chain: tuple[int, ...] = ()
    """Hashes of the pieces of its last answered prompt, to find the common prefix of the next one.
    """
    note: Any = None

    @property
    def may_be_cached(self) -> bool:
        """Whether its prefix can still be cached on its engine: false once as much as the whole
        cache was written since its last use."""
        engine = self.engine
        if engine is None or engine.capacity_tokens is None:
            return engine is not None
        return engine.allocated_tokens - self.last_use_tokens < engine.capacity_tokens


@dataclass(slots=True, eq=False)
class Call:
    """One request from its arrival to its end."""

    call_id: str
    program: Program
    arrived: float
    prompt_tokens: int
    """An estimate until the engine answers."""
    output_tokens: int
    """Predicted output tokens, at most what it asked for."""
    key: str = ""
    engine: EngineState | None = None
    admitted: float | None = None
    first_token: float | None = None
    produced: int = 0
    previous_tokens: int = 0
    """The program's context when the call was admitted: an upper bound of its cache hits."""
    expected_tokens: float = 0.0
    """Tokens charged against its endpoint's rate limit."""
    usage: Usage | None = None
    ended: float | None = None
    first: bool = False
    common: float = 1.0
    """The share of the program's context that this prompt begins with; 1 if it only grew."""

    @property
    def need_tokens(self) -> int:
        """KV tokens that it holds at its end."""
        return self.prompt_tokens + max(self.output_tokens, self.produced)


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """An engine's own metrics at one time; None is unknown."""

    at: float
    """Seconds on a monotonic clock."""
    kv_usage: float | None = None
    """Share of the KV cache in use, 0 to 1."""
    running: float | None = None
    waiting: float | None = None
    preemptions_total: float | None = None
    prefix_queries_total: float | None = None
    """Prompt tokens looked up in the prefix cache, ever."""
    prefix_hits_total: float | None = None
    capacity_tokens: int | None = None
    """Tokens that fit the KV cache of all ranks."""
    block_tokens: int | None = None


@dataclass(slots=True)
class Ledger:
    """All engines and programs."""

    engines: dict[str, EngineState] = field(default_factory=dict)
    programs: dict[str, Program] = field(default_factory=dict)
    waiting: dict[str, Call] = field(default_factory=dict)
    idle: dict[str, Program] = field(default_factory=dict)

    def rest(self, program: Program, now: float) -> None:
        """Mark a program idle: it no longer has a call."""
        program.idle_since = now
        self.idle.pop(program.program_id, None)
        self.idle[program.program_id] = program

    def wake(self, program: Program) -> None:
        """Mark a program active: it has a call again."""
        program.idle_since = None
        self.idle.pop(program.program_id, None)

    def open_engines(self) -> list[EngineState]:
        return [engine for engine in self.engines.values() if engine.open]
