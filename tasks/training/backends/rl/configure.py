"""Writes a backend's configuration, data and reward function from a policy job, and checks them.

In: a policy job and the entry of its base. Out: a folder, which appears only where all is valid.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from tutti.storage import Home
from tutti.tasks.serving import Model, weights_folder
from tutti.tasks.sweeps.plan import read_set
from tutti.tasks.sweeps.spec import reply_tokens
from tutti.tasks.training.backends.base import BackendRefused, check_names
from tutti.tasks.training.backends.configure import (
    backend_python,
    check_file,
    whole_folder,
    write_launch,
)
from tutti.tasks.training.backends.rl import policy_backend_of
from tutti.tasks.training.backends.rl.base import PolicyBackend, PolicyPlan, policy_settings
from tutti.tasks.training.backends.rl.carried import not_carried, not_carried_of
from tutti.tasks.training.policy import PolicyJob, held_out_suite, rollout_suite
from tutti.tasks.training.policy.apart import keep_apart

DIFFERENCES = (
    "an attempt whose scorer fails earns 0; tutti leaves it out",
    "limits.working_s, limits.attempt_usd: time and cost of an attempt have no limit",
    "tasks come in its own order, and the engine's draws are its own: no run repeats tutti's",
)
"""What every backend does otherwise than tutti."""


def configure_policy(
    job: PolicyJob, name: str, base: Model, folder: Path, home: Home | None = None
) -> dict[str, Any]:
    """Write everything that the backend needs into `folder`, which must be new or empty, without
    the tasks that copy held-out ones, in the store or in the job.

    Returns the folder, the launch command, by what it was checked, how many tasks it has, and what
    the backend does otherwise. Raises BackendRefused, BenchmarkError, JobError, SuiteError.
    """
    backend = policy_backend_of(name)
    python = backend_python(name)
    plan, left_out = _plan(job, backend, base, folder.resolve(), home)
    if python is None:
        check_names(name, job.backend_settings, backend.schema)
    settings = policy_settings(backend, plan)
    with whole_folder(folder) as unfinished:
        backend.write_data(plan, unfinished)
        text, launch = backend.write(plan, settings)
        file = unfinished / backend.config_file
        file.write_text(text)
        write_launch(launch, unfinished)
        checked = check_file(name, backend.schema, python, file)
    return {
        "folder": str(folder),
        "launch": f"bash {folder / 'launch.sh'}",
        "checked": checked,
        "notes": {
            "tasks to train on": len(plan.train.tasks),
            "tasks held out": len(plan.held_out.tasks),
        }
        | Counter(f"tasks left out: {why}" for why in left_out.values()),
        "differences": [*DIFFERENCES, *_of_entry(base, job.base), *backend.differences(plan)],
    }


def _of_entry(base: Model, name: str) -> list[str]:
    """Fields of a base's requests that no backend is told."""
    given = [field for field in ("thinking", "request") if getattr(base, field) not in (None, {})]
    return [f"models.{name}.{field}: its requests do not have it" for field in given]


def _plan(
    job: PolicyJob, backend: PolicyBackend, base: Model, folder: Path, home: Home | None
) -> tuple[PolicyPlan, dict[str, str]]:
    """The job with its tasks, and those that are left out. Raises BackendRefused with all that
    cannot be carried."""
    _raise(backend, [*not_carried(job)])
    if base.checkpoint is None:
        raise BackendRefused(f"base: {job.base} has no checkpoint in models.yaml")
    longest = reply_tokens(job.suite, base.context_tokens)
    if longest >= base.context_tokens:
        raise BackendRefused(
            f"suite.sampling.max_tokens: {longest} leaves no room for a prompt in the "
            f"{base.context_tokens} tokens of models.{job.base}.context_tokens"
        )
    train, test = read_set(rollout_suite(job)), read_set(held_out_suite(job))
    test = replace(test, tasks=test.tasks[: job.evaluation.limit])
    tasks = keep_apart(train, test, job, home)
    train = replace(train, tasks=tasks.kept)
    _raise(backend, [*not_carried_of(train, "suite"), *not_carried_of(test, "evaluation")])
    weights = weights_folder(base).resolve()
    plan = PolicyPlan(job, weights, base.context_tokens, train, test, folder)
    _raise(backend, backend.refuse(plan))
    return plan, tasks.left_out


def _raise(backend: PolicyBackend, reasons: list[str]) -> None:
    if reasons:
        raise BackendRefused(f"{backend.name} cannot be told all of the job: {'; '.join(reasons)}")
