"""Other projects' trainers for the same job: a backend is one file and one line in `BackendName`.

In: a job. Out: the backend's own configuration and data in a folder, with `launch.sh`; if a backend
of fixed sets is installed here, a trained checkpoint or adapter.
"""

from importlib import import_module
from typing import Any, get_args

from tutti.tasks.training.backends.base import BackendRefused, PolicyBackend, SetBackend
from tutti.tasks.training.jobs.job import BackendName

BACKENDS = tuple(name for name in get_args(BackendName) if name != "tutti")
POLICY_BACKENDS = ("verl", "prime-rl")


def backend_of(name: str) -> SetBackend:
    """Return the backend of a name in `BackendName`."""
    backend: SetBackend = _module(name).BACKEND
    return backend


def policy_backend_of(name: str) -> PolicyBackend:
    """Return a backend of policy jobs. Raises BackendRefused for an unknown one."""
    if name not in POLICY_BACKENDS:
        known = ", ".join(POLICY_BACKENDS)
        raise BackendRefused(f"--backend: {name!r} writes no policy jobs; one of {known}")
    backend: PolicyBackend = _module(name).POLICY_BACKEND
    return backend


def _module(name: str) -> Any:
    return import_module(f"{__name__}.{name.replace('-', '_')}")
