"""Settings of a simulation other than its programs, engines and policy."""

from collections.abc import Callable
from dataclasses import dataclass

from tutti.tasks.serving.scheduling import SchedulerLimits
from tutti.tasks.serving.simulation.workload import ClientBehaviour

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
