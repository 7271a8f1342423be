"""Workloads: programs of calls and tool runs, drawn from distributions; settings of a simulation.

A `Workload` is a value; `plans` draws its programs, each from its own generator seeded by (seed,
index), so that the programs are the same under every policy, engine and session count.

SimulationError
├── CalibrationError  an engine's constants cannot be fitted or read
└── PlanError         a plan file is wrong
"""

import inspect
import json
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from tutti.errors import ExitCode, TuttiError
from tutti.tasks.serving.scheduling import POLICIES, Policy, SchedulerLimits, make_policy

KINDS: dict[str, tuple[tuple[str, ...], Callable[[random.Random, float, float], float]]] = {
    "constant": (("value",), lambda rng, value, _: value),
    "uniform": (("low", "high"), lambda rng, low, high: rng.uniform(low, high)),
    "exponential": (("mean",), lambda rng, mean, _: rng.expovariate(1.0 / mean)),
    "lognormal": (("median", "sigma"), lambda rng, m, s: rng.lognormvariate(math.log(m), s)),
    "pareto": (("minimum", "alpha"), lambda rng, low, alpha: low * rng.paretovariate(alpha)),
}
"""The parameters of each distribution, and its sampling function."""


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
    """Log-normal, by median and sigma."""
    return Dist("lognormal", median, sigma)


def pareto(minimum: float, alpha: float) -> Dist:
    """Heavy-tailed: no mean below alpha 1."""
    return Dist("pareto", minimum, alpha)


def read_dist(value: Any) -> Dist:
    """A number, or ``{kind: {parameter: number}}``. Raises ValueError."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return constant(float(value))
    if not isinstance(value, Mapping) or len(value) != 1:
        raise ValueError(f"must be a number or one of {', '.join(KINDS)} with its parameters")
    ((kind, given),) = value.items()
    if kind not in KINDS:
        raise ValueError(f"no distribution {kind!r}; known: {', '.join(KINDS)}")
    names = KINDS[kind][0]
    if not isinstance(given, Mapping) or set(given) != set(names):
        raise ValueError(f"{kind} takes {' and '.join(names)}, not {given!r}")
    numbers = [given[name] for name in names]
    if not all(isinstance(number, int | float) for number in numbers):
        raise ValueError(f"{kind}: {given!r} has something that is no number")
    return Dist(str(kind), *(float(number) for number in numbers))


Distribution = Annotated[
    Dist, BeforeValidator(lambda value: value if isinstance(value, Dist) else read_dist(value))
]
"""In a plan file a number, or a kind with its parameters."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One call and the tool run after it."""

    prompt: int
    output: int
    kept: int
    """Leading prompt tokens shared with the previous turn's context."""
    tool_s: float
    max_tokens: int
    """The `max_tokens` that the call declares to the scheduler."""
    leaves_after_s: float | None = None
    """The client disconnects for good this long after sending, if there is no answer yet."""


@dataclass(frozen=True, slots=True)
class ProgramPlan:
    """One program."""

    name: str
    turns: tuple[Turn, ...]
    arrives_s: float = 0.0
    """Open loop: time since the start. Closed loop: time since its session became free."""


@dataclass(frozen=True, slots=True)
class ClientBehaviour:
    """How the programs' clients behave."""

    shared_tokens: int = 0
    streams: bool = True
    released: bool = True
    timeout_s: float | None = None
    retries: int = 0
    retry_wait_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Workload:
    """Programs described by distributions."""

    programs: Annotated[int, Field(ge=1)]
    """Number of programs."""
    turns: Distribution
    """Calls per program."""
    first_tokens: Distribution
    """Tokens of the first prompt, without the shared tokens."""
    growth_tokens: Distribution
    """Tokens that a tool result adds to the next prompt, besides the answer."""
    output_tokens: Distribution
    tool_s: Distribution
    shape: Literal["append", "rebuilt"] = "append"
    """`append`: a prompt continues the previous context. `rebuilt`: each turn has a new prompt of
    the same size that shares only its first `kept_tokens` with the previous one."""
    kept_tokens: Annotated[int, Field(ge=0)] = 0
    """For `rebuilt`, in addition to the shared tokens."""
    shared_tokens: Annotated[int, Field(ge=0)] = 0
    """Length of a system prompt common to all programs."""
    max_context: Annotated[int | None, Field(ge=2)] = None
    """A program ends before a call that would exceed it."""
    max_tokens: Annotated[int | None, Field(ge=1)] = None
    """The `max_tokens` that calls declare; unset: exactly their output."""
    streams: bool = True
    """Whether answers are streamed; otherwise the scheduler sees no first token."""
    released: bool = True
    """Whether the agent releases its program at the end."""
    timeout_s: Annotated[float | None, Field(gt=0)] = None
    """A client gives up a call, held or running, after this time."""
    retries: Annotated[int, Field(ge=0)] = 0
    """Retries after a timeout before the program ends."""
    retry_wait_s: Annotated[float, Field(ge=0)] = 1.0
    disconnect_p: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Probability, per call, that the client disconnects for good without releasing the program."""
    disconnect_after_s: Distribution = Dist("exponential", 1.0)
    arrivals_per_s: Annotated[float | None, Field(gt=0)] = None
    """Open loop: Poisson arrivals of programs at this rate, independent of sessions."""

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
    def clients(self) -> ClientBehaviour:
        """The clients' behaviour, which the plans do not include."""
        return ClientBehaviour(*(getattr(self, each.name) for each in fields(ClientBehaviour)))

    def plans(self, seed: int) -> list[ProgramPlan]:
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


HOP_S = 0.002
"""Latency that the gateway and the network add to a call."""
PATIENT, LIMITS = ClientBehaviour(), SchedulerLimits()

Progress = Callable[[int, int], None]
"""Called from time to time with the number of ended programs and of all."""


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """How programs are run and how their steps are counted."""

    hop_s: float = HOP_S
    """Latency that the gateway and the network add to a call."""
    window: tuple[float, float] = (0.2, 0.8)
    """Shares of all steps done (and of programs completed) between which steps per minute are
    counted."""
    clients: ClientBehaviour = PATIENT
    """How clients behave if programs are given as plans; a `Workload` has its own."""
    limits: SchedulerLimits = LIMITS
    """The scheduler's limits."""
    record_events: bool = False
    """Whether the outcome includes every scheduler decision."""
    progress: Progress | None = None
    """Called from time to time while programs end."""


DEFAULTS = SimulationSettings()


class SimulationError(TuttiError, ValueError):
    """The simulation cannot be run; the message names the field and shows the value."""

    exit_code = ExitCode.BAD_USAGE


class CalibrationError(SimulationError):
    """A calibration cannot be made or read; the message names file or cell, field and value."""


class PlanError(SimulationError):
    """A plan file is wrong; the message names file, field and value."""


def parse_policy(text: str) -> Policy:
    """Create the policy that `text` names; a value without a name is for its first option.

    Raises SimulationError with `text` in the message.
    """
    name, _, given = text.partition(":")
    if name not in POLICIES:
        raise SimulationError(
            f"no policy {name!r} in {text!r}; known: {', '.join(sorted(POLICIES))}"
        )
    options: dict[str, Any] = {}
    for item in filter(None, given.split(",")):
        option, equals, value = item.rpartition("=")
        option = option if equals else _first_option(name, text)
        try:
            options[option] = json.loads(value)
        except (ValueError, RecursionError):
            options[option] = value
    try:
        return make_policy(name, options)
    except (TypeError, ValueError) as error:
        raise SimulationError(f"policy {text!r}: {error}") from error


def _first_option(name: str, text: str) -> str:
    found = inspect.signature(POLICIES[name]).parameters.values()
    named = [each.name for each in found if each.kind is not inspect.Parameter.VAR_KEYWORD]
    if not named:
        raise SimulationError(
            f"policy {text!r}: write the option's name, as in {name}:option=value"
        )
    return named[0]
