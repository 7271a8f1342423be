"""What agents ask of engines: programs of calls and tools, drawn from distributions.

A `Workload` is a value; `plans` draws its programs, each from a generator of its own seeded by
(seed, index), so that the same program is the same under every policy, engine and session count.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

KINDS: dict[str, tuple[tuple[str, ...], Callable[[random.Random, float, float], float]]] = {
    "constant": (("value",), lambda rng, value, _: value),
    "uniform": (("low", "high"), lambda rng, low, high: rng.uniform(low, high)),
    "exponential": (("mean",), lambda rng, mean, _: rng.expovariate(1.0 / mean)),
    "lognormal": (("median", "sigma"), lambda rng, m, s: rng.lognormvariate(math.log(m), s)),
    "pareto": (("minimum", "alpha"), lambda rng, low, alpha: low * rng.paretovariate(alpha)),
}
"""Of each distribution its parameters, and how it is drawn."""


@dataclass(frozen=True, slots=True)
class Dist:
    """A distribution of `KINDS` by name."""

    kind: str
    a: float
    b: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"no distribution {self.kind!r}; known: {', '.join(KINDS)}")
        names = KINDS[self.kind][0]
        for name, value in zip(names, (self.a, self.b), strict=False):
            least = 0.0 if name in ("value", "low", "sigma") else 1e-9
            if not value >= least:
                raise ValueError(f"{self.kind}: {name} must be at least {least:g}, not {value}")
        if self.kind == "uniform" and self.b < self.a:
            raise ValueError(f"uniform: high {self.b} is below low {self.a}")

    def draw(self, rng: random.Random) -> float:
        """One value."""
        return KINDS[self.kind][1](rng, self.a, self.b)


def constant(value: float) -> Dist:
    """Always `value`."""
    return Dist("constant", value)


def uniform(low: float, high: float) -> Dist:
    """Even between `low` and `high`."""
    return Dist("uniform", low, high)


def exponential(mean: float) -> Dist:
    """Memoryless with that mean."""
    return Dist("exponential", mean)


def lognormal(median: float, sigma: float) -> Dist:
    """The exponential of a normal."""
    return Dist("lognormal", median, sigma)


def pareto(minimum: float, alpha: float) -> Dist:
    """Heavy-tailed: no mean below alpha 1."""
    return Dist("pareto", minimum, alpha)


@dataclass(frozen=True, slots=True)
class Turn:
    """One call and the tool run after it."""

    prompt: int
    output: int
    kept: int
    """Leading prompt tokens that are those of the previous turn's context."""
    tool_s: float
    max_tokens: int
    """What the call says it may produce, as the scheduler is told."""
    leaves_after_s: float | None = None
    """The client goes away for good so long after sending, if no answer came."""


@dataclass(frozen=True, slots=True)
class ProgramPlan:
    """One program."""

    name: str
    turns: tuple[Turn, ...]
    arrives_s: float = 0.0
    """Open loop: since the start. Closed loop: after the session that runs it was free."""


@dataclass(frozen=True, slots=True)
class Clients:
    """How the programs' clients behave."""

    shared_tokens: int = 0
    streams: bool = True
    released: bool = True
    timeout_s: float | None = None
    retries: int = 0
    retry_wait_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Workload:
    """Programs by their distributions."""

    programs: int
    """How many in all."""
    turns: Dist
    """Calls a program."""
    first_tokens: Dist
    """First prompt, without the shared tokens."""
    growth_tokens: Dist
    """What a tool adds to the next prompt, beside the answer."""
    output_tokens: Dist
    tool_s: Dist
    shape: Literal["append", "rebuilt"] = "append"
    """`append`: a prompt continues the context before it. `rebuilt`: it is made anew each turn, of
    the same size, and shares only its first `kept_tokens` with the one before."""
    kept_tokens: int = 0
    """For `rebuilt`, beyond the shared tokens."""
    shared_tokens: int = 0
    """A system prompt that all programs begin with."""
    max_context: int | None = None
    """A program ends before a call that would be longer."""
    max_tokens: int | None = None
    """What calls say they may produce; unset: exactly what they do."""
    streams: bool = True
    """Whether answers are streamed: else the scheduler hears of no first token."""
    released: bool = True
    """Whether the agent says when a program is over."""
    timeout_s: float | None = None
    """A client gives a call up after so long, held or running."""
    retries: int = 0
    """How often it then asks again, before the program ends."""
    retry_wait_s: float = 1.0
    disconnect_p: float = 0.0
    """Chance, by call, that the client goes away for good and releases nothing."""
    disconnect_after_s: Dist = Dist("exponential", 1.0)
    arrivals_per_s: float | None = None
    """Open loop: programs come at random at this rate, whatever sessions there are."""

    def __post_init__(self) -> None:
        if self.programs < 1:
            raise ValueError(f"workload: programs must be at least 1, not {self.programs}")
        if self.shape not in ("append", "rebuilt"):
            raise ValueError(f"workload: shape must be append or rebuilt, not {self.shape!r}")
        if not 0.0 <= self.disconnect_p <= 1.0:
            raise ValueError(f"workload: disconnect_p must be in 0..1, not {self.disconnect_p}")
        if self.arrivals_per_s is not None and self.arrivals_per_s <= 0:
            raise ValueError(f"workload: arrivals_per_s must be > 0, not {self.arrivals_per_s}")

    @property
    def clients(self) -> Clients:
        """What of it is not in the plans."""
        return Clients(
            self.shared_tokens,
            self.streams,
            self.released,
            self.timeout_s,
            self.retries,
            self.retry_wait_s,
        )

    def plans(self, seed: int) -> list[ProgramPlan]:
        """The programs of that seed."""
        arrives, plans = 0.0, []
        clock = random.Random(f"{seed}:arrivals")
        for index in range(self.programs):
            if self.arrivals_per_s is not None:
                arrives += clock.expovariate(self.arrivals_per_s)
            turns = self._turns(random.Random(f"{seed}:{index}"))
            plans.append(ProgramPlan(f"p{index}", tuple(turns), arrives))
        return plans

    def _turns(self, rng: random.Random) -> list[Turn]:
        turns: list[Turn] = []
        prompt, context = self.shared_tokens + _count(self.first_tokens, rng), 0
        for _ in range(_count(self.turns, rng)):
            output = _count(self.output_tokens, rng)
            if self.max_tokens is not None:
                output = min(output, self.max_tokens)
            if self.max_context is not None and prompt + output > self.max_context and turns:
                break
            kept = min(context, prompt)
            if self.shape == "rebuilt":
                kept = min(self.shared_tokens + self.kept_tokens, context, prompt)
            tool_s = self.tool_s.draw(rng)
            leaves = rng.random() < self.disconnect_p if self.disconnect_p else False
            after = self.disconnect_after_s.draw(rng) if leaves else None
            turns.append(Turn(prompt, output, kept, tool_s, self.max_tokens or output, after))
            context = prompt + output
            prompt = context + _count(self.growth_tokens, rng)
        return turns


def _count(dist: Dist, rng: random.Random) -> int:
    return max(1, round(dist.draw(rng)))
