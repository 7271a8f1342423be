"""Errors of the GPUs."""

from tutti.errors import ExitCode, TuttiError


class GpuError(TuttiError, RuntimeError):
    """Base class: the message says what happened and what to do."""


class NoSuchGpu(GpuError):
    """This machine lacks the requested GPUs."""

    exit_code = ExitCode.BAD_USAGE


class GpusBusy(GpuError):
    """Others held the GPUs for the whole waiting time."""


class GpuLost(GpuError):
    """The lease on a GPU was lost, and the processes on it were ended."""

    exit_code = ExitCode.INCOMPLETE
