"""Reinforcement learning by other trainers, from a policy job: one file each.

In: a policy job and its tasks. Out: a folder with the backend's configuration, its data, a reward
function that calls our scorer, and `launch.sh`. Nothing runs here.
"""

from importlib import import_module

from tutti.tasks.training.backends.base import BackendRefused
from tutti.tasks.training.backends.rl.base import PolicyBackend

POLICY_BACKENDS = {"verl": "verl", "prime-rl": "prime_rl"}
"""Each backend's module here."""


def policy_backend_of(name: str) -> PolicyBackend:
    """A backend by its name. Raises BackendRefused for one that is not known."""
    if name not in POLICY_BACKENDS:
        known = ", ".join(POLICY_BACKENDS)
        raise BackendRefused(f"--backend: {name!r} writes no policy jobs; one of {known}")
    module = import_module(f"tutti.tasks.training.backends.rl.{POLICY_BACKENDS[name]}")
    found: PolicyBackend = module.BACKEND
    return found


__all__ = ["POLICY_BACKENDS", "PolicyBackend", "policy_backend_of"]
