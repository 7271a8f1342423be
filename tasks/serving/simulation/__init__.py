"""Simulated engines under the gateway's own scheduler: predict a run before it is made.

`simulate(workload, sessions, [SMALL], make_policy("cap", {"limit": 16}), seed)` is an `Outcome`.
"""

from tutti.tasks.serving.simulation.engine_model import EngineModel
from tutti.tasks.serving.simulation.errors import SimulationError
from tutti.tasks.serving.simulation.outcome import Outcome
from tutti.tasks.serving.simulation.simulate import simulate
from tutti.tasks.serving.simulation.workload import Dist, Plan, Turn, Workload

__all__ = [
    "Dist",
    "EngineModel",
    "Outcome",
    "Plan",
    "SimulationError",
    "Turn",
    "Workload",
    "simulate",
]
