"""Errors of the simulator.

SimulationError
├── CalibrationError  an engine's constants cannot be fitted or read
└── PlanError         a plan file is wrong
"""

from tutti.errors import ExitCode, TuttiError


class SimulationError(TuttiError, ValueError):
    """The simulation cannot be run; the message names the field and shows the value."""

    exit_code = ExitCode.BAD_USAGE


class CalibrationError(SimulationError):
    """A calibration cannot be made or read; the message names file or cell, field and value."""


class PlanError(SimulationError):
    """A plan file is wrong; the message names file, field and value."""
