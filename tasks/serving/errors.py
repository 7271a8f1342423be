"""Serving's errors.

ServingError
├── RegistryError      models.yaml names no such model, or a field of it is wrong
├── PriceError         the price book is wrong, or has no price of a model
├── PortTaken          the port asked for belongs to another process
├── ModelsEnvironmentMissing   the Python that holds vLLM is not there
├── EngineFailed       an engine did not start, or died while serving
└── GatewayFailed      the gateway did not start, died, or refused an order
"""

from tutti.errors import BAD_USAGE, TuttiError


class ServingError(TuttiError, RuntimeError):
    """Serving could not do what was asked; the message says what to do."""


class RegistryError(ServingError):
    """models.yaml is wrong or names no such model."""

    exit_code = BAD_USAGE


class PriceError(ServingError):
    """The price book is wrong, or has no price of a model."""

    exit_code = BAD_USAGE


class PortTaken(ServingError):
    """The port asked for belongs to another process."""


class ModelsEnvironmentMissing(ServingError):
    """The Python that holds vLLM is not there."""


class EngineFailed(ServingError):
    """An engine did not start, or died while serving."""


class GatewayFailed(ServingError):
    """The gateway did not start, died, or refused an order."""
