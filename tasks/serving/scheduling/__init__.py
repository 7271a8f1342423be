"""Program-aware scheduling: a ledger, a scheduler, and policies behind one small interface.

Pure state machines: the gateway and the simulator run the same objects.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tutti.tasks.serving.scheduling.adaptive import Adaptive
from tutti.tasks.serving.scheduling.attained import LeastAttainedService
from tutti.tasks.serving.scheduling.cap import DEFAULT_CAP, CapPolicy
from tutti.tasks.serving.scheduling.continuum import Continuum
from tutti.tasks.serving.scheduling.ledger import (
    Call,
    EngineMetrics,
    EngineState,
    Ledger,
    Program,
    Usage,
)
from tutti.tasks.serving.scheduling.policy import Policy
from tutti.tasks.serving.scheduling.rate import Rate
from tutti.tasks.serving.scheduling.reasons import (
    CLIENT_GONE,
    CROWDED_OUT,
    LEASE_ENDED,
    RELEASED,
    Reason,
    ReasonCode,
)
from tutti.tasks.serving.scheduling.scheduler import Scheduler, SchedulerLimits
from tutti.tasks.serving.scheduling.thunderagent import ThunderAgent

POLICIES: dict[str, Callable[..., Policy]] = {
    "passthrough": Policy,
    "cap": CapPolicy,
    "adaptive": Adaptive,
    "thunderagent": ThunderAgent,
    "continuum": Continuum,
    "least_attained_service": LeastAttainedService,
}
"""Each takes its own options as keyword arguments."""


def make_policy(name: str, options: Mapping[str, Any] | None = None) -> Policy:
    """Create the policy called `name`.

    Raises ValueError for an unknown name and for unknown or invalid options.
    """
    if name not in POLICIES:
        raise ValueError(f"no policy {name!r}; known: {', '.join(sorted(POLICIES))}")
    try:
        return POLICIES[name](**(options or {}))
    except TypeError as error:
        raise ValueError(f"policy {name}: {error}") from error


__all__ = [
    "CLIENT_GONE",
    "CROWDED_OUT",
    "DEFAULT_CAP",
    "LEASE_ENDED",
    "POLICIES",
    "RELEASED",
    "Adaptive",
    "Call",
    "CapPolicy",
    "Continuum",
    "EngineMetrics",
    "EngineState",
    "LeastAttainedService",
    "Ledger",
    "Policy",
    "Program",
    "Rate",
    "Reason",
    "ReasonCode",
    "Scheduler",
    "SchedulerLimits",
    "ThunderAgent",
    "Usage",
    "make_policy",
]
