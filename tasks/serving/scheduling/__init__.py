"""Program-aware scheduling: a ledger, a scheduler, and policies behind one small interface.

Pure state machines: the gateway and the simulator run the same objects.
"""

from collections.abc import Callable, Mapping
from functools import cache
from inspect import Parameter, signature
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from tutti.tasks.platform import plain_numbers
from tutti.tasks.serving.scheduling.adaptive import Adaptive
from tutti.tasks.serving.scheduling.attained import LeastAttainedService as LeastAttainedService
from tutti.tasks.serving.scheduling.cap import DEFAULT_CAP as DEFAULT_CAP
from tutti.tasks.serving.scheduling.cap import CapPolicy as CapPolicy
from tutti.tasks.serving.scheduling.continuum import Continuum as Continuum
from tutti.tasks.serving.scheduling.ledger import Call as Call
from tutti.tasks.serving.scheduling.ledger import EngineMetrics as EngineMetrics
from tutti.tasks.serving.scheduling.ledger import EngineState as EngineState
from tutti.tasks.serving.scheduling.ledger import Ledger as Ledger
from tutti.tasks.serving.scheduling.ledger import Program as Program
from tutti.tasks.serving.scheduling.ledger import Rate as Rate
from tutti.tasks.serving.scheduling.ledger import Usage as Usage
from tutti.tasks.serving.scheduling.policy import Policy as Policy
from tutti.tasks.serving.scheduling.reasons import CLIENT_GONE as CLIENT_GONE
from tutti.tasks.serving.scheduling.reasons import Reason as Reason
from tutti.tasks.serving.scheduling.reasons import ReasonCode as ReasonCode
from tutti.tasks.serving.scheduling.scheduler import Scheduler as Scheduler
from tutti.tasks.serving.scheduling.scheduler import SchedulerLimits as SchedulerLimits
from tutti.tasks.serving.scheduling.thunderagent import ThunderAgent as ThunderAgent

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
    """Create the policy called `name`. Raises ValueError as `policy_options` does, and for a value
    that the policy refuses."""
    given = policy_options(name, options or {})
    return POLICIES[name](**given)


def policy_options(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The given options as the policy takes them: of their types, without those at their default.

    Raises ValueError for an unknown name, and for an unknown option, a missing one or a wrong type.
    """
    if name not in POLICIES:
        raise ValueError(f"no policy {name!r}; known: {', '.join(sorted(POLICIES))}")
    try:
        options = _options_model(name).model_validate(dict(given))
    except ValidationError as error:
        said = "; ".join(f"{each['loc'][0]}: {each['msg']}" for each in error.errors())
        raise ValueError(f"policy {name}: {said}") from error
    resolved: dict[str, Any] = plain_numbers(options.model_dump(exclude_defaults=True))
    return resolved


@cache
def _options_model(name: str) -> type[BaseModel]:
    parameters = signature(POLICIES[name]).parameters
    fields: dict[str, Any] = {
        each.name: (each.annotation, ... if each.default is Parameter.empty else each.default)
        for each in parameters.values()
    }
    strict = ConfigDict(extra="forbid", allow_inf_nan=False)
    return create_model(name, __config__=strict, **fields)
