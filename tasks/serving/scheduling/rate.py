"""A provider's limits a minute, kept before it has to refuse. Pure; callers bring the time."""

from dataclasses import dataclass, field

MINUTE_S = 60.0
FIRST_OUTPUT = 256.0
WEIGHT_OF_ONE = 0.1


@dataclass(slots=True)
class Bucket:
    """A token bucket: what a second brings may go at once, so calls are spread over the minute.

    It is filled so that no minute, whenever it begins, takes more than the limit.
    """

    per_minute: float
    level: float = field(init=False)
    at: float | None = None
    """When the level was as it says; None before the first look."""

    def __post_init__(self) -> None:
        self.level = self.depth

    @property
    def depth(self) -> float:
        """The most that may go at once."""
        return max(1.0, self.per_minute / MINUTE_S)

    @property
    def per_s(self) -> float:
        """How fast it fills: a full one and what comes in a minute are the limit together, and a
        call that just fits as the minute ends belongs to the next."""
        return (self.per_minute - self.depth + 1.0) / MINUTE_S

    def fill(self, now: float) -> None:
        """Time has passed; a clock that was set back brings nothing."""
        if self.at is not None and now > self.at:
            self.level = min(self.depth, self.level + (now - self.at) * self.per_s)
        self.at = now

    def ready_in_s(self, amount: float) -> float:
        """Seconds until the level is `amount`."""
        return max(0.0, amount - self.level) / self.per_s


@dataclass(slots=True)
class Rate:
    """What an endpoint takes in a minute.

    A call counts when it is sent, with the tokens it is expected to need, and is put right when it
    has ended. One of more tokens than go at once is sent like any other, and leaves a debt.
    """

    requests: Bucket | None = None
    tokens: Bucket | None = None
    usual_output: float = FIRST_OUTPUT
    """Tokens that an answer had on average, the last ones most: calls without a limit of their own
    would else be taken to fill a context."""

    @classmethod
    def of(cls, requests_per_minute: int | None, tokens_per_minute: int | None) -> "Rate | None":
        """None where nothing is limited."""
        if requests_per_minute is None and tokens_per_minute is None:
            return None
        requests = None if requests_per_minute is None else Bucket(float(requests_per_minute))
        return cls(
            requests, None if tokens_per_minute is None else Bucket(float(tokens_per_minute))
        )

    @property
    def open(self) -> bool:
        """Whether one more call may go, as of the last `fill`. Its size is not asked: a large one
        would else wait behind every small one."""
        # What a timer's time leaves out in its last digits must not cost another turn of it.
        enough = self.requests is None or self.requests.level >= 1.0 - 1e-9
        return enough and (self.tokens is None or self.tokens.level > 0.0)

    def fill(self, now: float) -> None:
        """Time has passed."""
        for bucket in (self.requests, self.tokens):
            if bucket is not None:
                bucket.fill(now)

    def take(self, prompt_tokens: int, output_tokens: int) -> float:
        """A call is sent that may produce so much; returns the tokens that are expected of it."""
        expected = prompt_tokens + min(float(output_tokens), self.usual_output)
        if self.requests is not None:
            self.requests.level -= 1.0
        if self.tokens is not None:
            self.tokens.level -= expected
        return expected

    def correct(self, expected: float, prompt_tokens: int, output_tokens: int) -> None:
        """A call has ended, and took so much."""
        self.usual_output += (output_tokens - self.usual_output) * WEIGHT_OF_ONE
        if self.tokens is not None:
            used = prompt_tokens + output_tokens
            self.tokens.level = min(self.tokens.depth, self.tokens.level + expected - used)

    def ready_in_s(self) -> float:
        """Seconds until one more call may go."""
        waits = [0.0]
        if self.requests is not None:
            waits.append(self.requests.ready_in_s(1.0))
        if self.tokens is not None:
            waits.append(self.tokens.ready_in_s(1.0))
        return max(waits)

    def __str__(self) -> str:
        named = (("requests", self.requests), ("tokens", self.tokens))
        return " and ".join(f"{b.per_minute:.0f} {name}" for name, b in named if b) + " a minute"
