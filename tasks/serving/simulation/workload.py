"""Programs for simulation, settings of their execution, and the policies by name."""

import inspect
import json
from dataclasses import dataclass
from typing import Any

from tutti.errors import ExitCode, TuttiError
from tutti.tasks.serving.scheduling import POLICIES, Policy, make_policy


@dataclass(frozen=True, slots=True)
class Turn:
    """One call and the tool run after it."""

    prompt: int
    output: int
    kept: int
    """Leading prompt tokens shared with the previous turn's context."""
    tool_s: float
    max_tokens: int


@dataclass(frozen=True, slots=True)
class ProgramPlan:
    """One program."""

    name: str
    turns: tuple[Turn, ...]
    arrives_s: float = 0.0
    """Open loop: time since the start. Closed loop: time since its session became free."""


HOP_S = 0.002


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """Settings that the plans of programs do not define."""

    hop_s: float = HOP_S
    """Latency that the gateway and the network add to a call."""
    shared_tokens: int = 0
    """Length of a system prompt common to all programs."""
    streams: bool = True
    """Whether answers are streamed; otherwise the scheduler sees no first token."""
    released: bool = True
    """Whether the agent releases its program at the end."""


class SimulationError(TuttiError, ValueError):
    """A simulation that cannot be run; the message names the field and shows the value."""

    exit_code = ExitCode.BAD_USAGE


class CalibrationError(SimulationError):
    """A calibration cannot be computed or read; the message names file or cell, field and value."""


def parse_policy(text: str) -> Policy:
    """Create the policy that `text` names; a value without a name is for its first option. Raises
    SimulationError with `text` in the message."""
    name, _, given = text.partition(":")
    if name not in POLICIES:
        raise SimulationError(
            f"no policy {name!r} in {text!r}; known: {', '.join(sorted(POLICIES))}"
        )
    first = next(iter(inspect.signature(POLICIES[name]).parameters), "")
    options: dict[str, Any] = {}
    for item in filter(None, given.split(",")):
        option, equals, value = item.rpartition("=")
        try:
            options[option if equals else first] = json.loads(value)
        except (ValueError, RecursionError):
            options[option if equals else first] = value
    try:
        return make_policy(name, options)
    except (TypeError, ValueError) as error:
        raise SimulationError(f"policy {text!r}: {error}") from error
