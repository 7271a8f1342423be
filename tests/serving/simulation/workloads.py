"""Workloads for the simulator's tests: programs drawn from distributions, and recorded set-ups.

A `Workload` is a value; `plans` draws its programs, each from its own generator seeded by (seed,
index), so that the programs are the same under every policy, engine and session count.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.scheduling.simulated import ENGINES
from tutti.tasks.serving.scheduling import Policy
from tutti.tasks.serving.simulation.engine import EngineModel
from tutti.tasks.serving.simulation.outcome import Outcome
from tutti.tasks.serving.simulation.simulate import simulate
from tutti.tasks.serving.simulation.workload import ProgramPlan, SimulationSettings, Turn

SMALL, MID, POCKET = (ENGINES[name] for name in ("small", "mid", "pocket"))
Dist = Callable[[random.Random], float]


def constant(value: float) -> Dist:
    return lambda rng: value


def uniform(low: float, high: float) -> Dist:
    return lambda rng: rng.uniform(low, high)


def pareto(minimum: float, alpha: float) -> Dist:
    return lambda rng: minimum * rng.paretovariate(alpha)


@dataclass(frozen=True)
class Workload:
    """Programs described by distributions."""

    programs: int
    """Number of programs."""
    turns: Dist
    """Calls per program."""
    first_tokens: Dist
    """Tokens of the first prompt, without the shared tokens."""
    growth_tokens: Dist
    """Tokens that a tool result adds to the next prompt, besides the answer."""
    output_tokens: Dist
    tool_s: Dist
    shape: Literal["append", "rebuilt"] = "append"
    """`append`: a prompt continues the previous context. `rebuilt`: each turn has a new prompt of
    the same size that shares only its first `kept_tokens` with the previous one."""
    kept_tokens: int = 0
    """For `rebuilt`, in addition to the shared tokens."""
    shared_tokens: int = 0
    """Length of a system prompt common to all programs."""
    max_context: int | None = None
    """A program ends before a call that would exceed it."""
    max_tokens: int | None = None
    """The `max_tokens` that calls declare; unset: exactly their output."""
    streams: bool = True
    """Whether answers are streamed; otherwise the scheduler sees no first token."""
    released: bool = True
    """Whether the agent releases its program at the end."""
    arrivals_per_s: float | None = None
    """Open loop: Poisson arrivals of programs at this rate, independent of sessions."""

    def settings(self, **more: float) -> SimulationSettings:
        return SimulationSettings(
            shared_tokens=self.shared_tokens, streams=self.streams, released=self.released, **more
        )

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
            turns.append(Turn(prompt, output, kept, self.tool_s(rng), self.max_tokens or output))
            context = prompt + output
            prompt = context + _count(self.growth_tokens, rng)
        return turns


def _count(dist: Dist, rng: random.Random) -> int:
    return max(1, round(dist(rng)))


def simulate_work(
    work: Workload,
    sessions: int | None,
    engines: Sequence[EngineModel],
    policy: Policy,
    seed: int = 0,
) -> Outcome:
    return simulate(work.plans(seed), sessions, engines, policy, work.settings())


SMALL_WORK = Workload(
    96, constant(10), constant(400), constant(176), constant(24), uniform(0.02, 0.2), streams=False
)
"""steps/min (hit), 4-layer model, two cores of a Xeon with AMX: at cap 12 3,004 (.83), 14: 3,416,
16: 3,594 (.83), 20: 2,600 (.62); direct with 8 programs 2,361, 16: 3,626 (.83), 48: 1,888 (.17)."""

MID_WORK = Workload(
    20,
    constant(6),
    constant(400),
    constant(276),
    constant(24),
    lambda rng: rng.expovariate(1 / 2.0),
    streams=False,
)
"""38 M model, in the same form: 20 programs direct 58 to 62 (.05), cap 6 95 (.70), cap 8 104
(.61)."""

POCKET_WORK = Workload(
    96,
    uniform(1.5, 3.6),
    uniform(26, 42),
    uniform(20, 150),
    uniform(4, 17),
    lambda rng: rng.lognormvariate(math.log(0.043), 0.9),
    shared_tokens=40,
)
"""4 M model, the demo: passthrough at 2, 8, 16 sessions 1,221 (.54), 2,207 (.36), 3,138 (.21); cap
6: 1,198, 1,812, 1,995. Lengths and pauses are those of recorded demos. Client, tools and engine
share two cores there, which is not modelled: the simulation is 20 % off at 16 sessions."""
