"""Other trainers, from the same job: a backend is one file and one line in `BACKENDS`.

In: a job, a base and a training set. Out: the backend's own configuration and data in a folder,
with `launch.sh`; where the backend is installed here, a trained checkpoint or adapter.
"""

from importlib import import_module
from typing import get_args

from tutti.tasks.training.backends.base import Backend, BackendJob, BackendRefused
from tutti.tasks.training.job import BackendName

BACKENDS = {name: name.replace("-", "_") for name in get_args(BackendName) if name != "tutti"}
"""Each backend's module here."""


def backend_of(name: str) -> Backend:
    """The backend of a name that `BackendName` has."""
    module = import_module(f"tutti.tasks.training.backends.{BACKENDS[name]}")
    found: Backend = module.BACKEND
    return found


__all__ = ["BACKENDS", "Backend", "BackendJob", "BackendRefused", "backend_of"]
