"""Errors of serving, below `ServingError`."""

from tutti.errors import ExitCode, TuttiError


class ServingError(TuttiError, RuntimeError):
    """Base class: a serving operation failed; the message says what to do."""


class RegistryError(ServingError):
    """models.yaml is invalid or has no such model."""

    exit_code = ExitCode.BAD_USAGE


class WeightsError(RegistryError):
    """A checkpoint is missing, incomplete, or cannot be downloaded or checked."""


class PriceError(ServingError):
    """The price book is invalid, or has no price for a model."""

    exit_code = ExitCode.BAD_USAGE


class PortTaken(ServingError):
    """The requested port is in use by another process."""


class ModelsEnvironmentMissing(ServingError):
    """The Python environment with vLLM is missing."""


class EndpointFailed(ServingError):
    """An endpoint given by its URL does not answer, or rejects the key."""


class EngineFailed(ServingError):
    """An engine did not start, or refused a request."""


class EngineLost(EngineFailed):
    """An engine died while serving; finished work is stored."""

    exit_code = ExitCode.INCOMPLETE


class GatewayFailed(ServingError):
    """The gateway did not start, died, or refused a request."""
