"""A provider's limits per minute, kept before it has to refuse. Pure; the caller passes the
time."""

from dataclasses import dataclass, field

MINUTE_S = 60.0
FIRST_OUTPUT = 256.0
WEIGHT_OF_ONE = 0.1


@dataclass(slots=True)
class TokenBucket:
    """A token bucket: one second's allowance may be used at once, so calls are spread over the
    minute.

    It is filled so that no minute, whenever it begins, exceeds the limit.
    """

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
    """An endpoint's limits of calls and tokens per minute.

    A call is charged when it is sent, with its expected tokens, and corrected when it has ended. A
    call of more tokens than the bucket holds is sent like any other and leaves the level negative.
    """

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
        """Charge a call that may produce so many tokens; returns its expected tokens."""
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
