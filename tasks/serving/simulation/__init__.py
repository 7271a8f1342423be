"""Simulated engines under the gateway's own scheduler, to replay a run under other settings."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.serving.simulation.calibrate import Replay as Replay
    from tutti.tasks.serving.simulation.calibrate import read_calibration as read_calibration
    from tutti.tasks.serving.simulation.calibrate import replay as replay
    from tutti.tasks.serving.simulation.engine import EngineModel as EngineModel
    from tutti.tasks.serving.simulation.recording import load_recording as load_recording
    from tutti.tasks.serving.simulation.workload import SimulationError as SimulationError

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
