"""Simulated engines under the gateway's own scheduler: predict a run before it is made.

`simulate(workload, sessions, [SMALL], make_policy("cap", {"limit": 16}), seed)` is an `Outcome`.
"""

from tasks.serving.simulation.engine_model import EngineModel
from tasks.serving.simulation.errors import SimulationError
from tasks.serving.simulation.outcome import Outcome
from tasks.serving.simulation.simulate import simulate
from tasks.serving.simulation.workload import Dist, Plan, Turn, Workload

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
