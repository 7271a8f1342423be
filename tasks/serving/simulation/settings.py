"""The settings of a simulation beside its programs, its engines and its policy."""

from collections.abc import Callable
from dataclasses import dataclass

from tutti.tasks.serving.scheduling import SchedulerLimits
from tutti.tasks.serving.simulation.workload import Clients

HOP_S = 0.002
"""What the gateway and the network add to a call."""
PATIENT, LIMITS = Clients(), SchedulerLimits()

Progress = Callable[[int, int], None]
"""Told now and then how many programs are over, and of how many."""


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """How programs are run and their steps are counted."""

    hop_s: float = HOP_S
    """What the gateway and the network add to a call."""
    window: tuple[float, float] = (0.2, 0.8)
    """Shares of all steps done (and of programs completed) between which steps per minute are
    counted."""
    clients: Clients = PATIENT
    """How the clients of programs given as such behave; a `Workload` names its own."""
    limits: SchedulerLimits = LIMITS
    """The scheduler's limits."""
    record_events: bool = False
    """Whether the outcome holds every decision of the scheduler."""
    progress: Progress | None = None
    """Called now and then while programs end."""


DEFAULTS = SimulationSettings()
