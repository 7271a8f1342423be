"""Invariants of each policy, which `test_properties` checks for any order of events."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tutti.tasks.serving.scheduling import POLICIES, Policy


@dataclass(frozen=True)
class Case:
    """Policy with options, and its invariants."""

    policy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    work_conserving: bool = False
    """It holds no call while an engine is idle."""
    sticky: bool = False
    """But for calls of a program whose own engine has all the calls that it takes."""
    books: bool = False
    """What it books never exceeds what there is, but for a program that is larger alone."""
    kept: tuple[str, ...] = ()
    """Its own structures, which are empty when all programs are gone."""

    def make(self) -> Policy:
        return POLICIES[self.policy](**self.options)


TA = ("_paused", "_ready")
CASES = {
    "passthrough": Case("passthrough", work_conserving=True),
    "cap": Case("cap", {"limit": 3}, kept=("inside", "_ready", "_queue")),
    "adaptive": Case("adaptive", work_conserving=True, sticky=True, kept=("_ready", "_queue")),
    "thunderagent": Case("thunderagent", {"wait_timeout_s": 60.0}, kept=TA),
    "thunderagent, decay": Case("thunderagent", {"wait_timeout_s": 60.0, "decay": True}, kept=TA),
    "continuum": Case("continuum", books=True, kept=("pins", "_queue")),
    "continuum, ttl": Case("continuum", {"rule": "ttl"}, books=True, kept=("pins", "_queue")),
    "least_attained_service": Case(
        "least_attained_service",
        {"quantum_s": 1.0, "starvation_ratio": 2.0},
        work_conserving=True,
        books=True,
        kept=("_queue", "_patience"),
    ),
}
