"""Errors of the GPUs."""

from tutti.errors import ExitCode, TuttiError


class GpuError(TuttiError, RuntimeError):
    """Base class: the message says what happened and what to do."""


class NoSuchGpu(GpuError):
    """This machine does not have the GPUs that were asked for."""

    exit_code = ExitCode.BAD_USAGE


class GpusBusy(GpuError):
    """The GPUs were held by others for as long as was waited."""


class GpuLost(GpuError):
    """The lease on a GPU was lost: what ran on it was ended."""

    exit_code = ExitCode.INCOMPLETE
