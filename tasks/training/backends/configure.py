"""Writing and checking a backend's configuration and data, with the launch command.

In: a job, and a base with a training set, or the entry of its base. Out: a folder with data,
configuration and `launch.sh`, which appears only if all of it is valid.
"""

import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tutti.storage import Catalog, Home
from tutti.tasks.platform import IS_SOURCE, PROJECT, models_python_path
from tutti.tasks.serving.registry import Model, weights_folder
from tutti.tasks.sweeps.plan import TaskSet
from tutti.tasks.training.backends import backend_of, policy_backend_of
from tutti.tasks.training.backends.base import (
    Backend,
    BackendJob,
    BackendRefused,
    PolicyBackend,
    PolicyPlan,
    SetBackend,
    check_names,
    known_names,
    not_carried,
    not_carried_of,
)
from tutti.tasks.training.backends.checks import CHECKS, REFUSED
from tutti.tasks.training.exports import write_conversations
from tutti.tasks.training.exports.conversation import conversations_of
from tutti.tasks.training.jobs.job import TrainJob
from tutti.tasks.training.policy import PolicyJob, held_out_suite, rollout_suite
from tutti.tasks.training.policy.cells import keep_apart
from tutti.tasks.training.sets.frozen import TrainingSet

CHECK_S = 300
"""Longest check: LLaMA-Factory's imports take 20 s on two busy cores."""
CHECKER = Path(__file__).with_name("checks.py")
HEADER = """\
#!/usr/bin/env bash
# Written by tutti. GPUS: how many of each node's are used.
set -euo pipefail
cd "$(dirname "$0")"
"""
DIFFERENCES = (
    "an attempt whose scorer fails earns 0; tutti leaves it out",
    "limits.working_s, limits.attempt_usd: time and cost of an attempt have no limit",
    "tasks come in its own order, and the engine's draws are its own: no run repeats tutti's",
)
"""What every backend does otherwise than tutti."""


def configure_backend(
    job: TrainJob, base: Path, training_set: TrainingSet, folder: Path, catalog: Catalog
) -> dict[str, Any]:
    """Write everything that `job.backend` needs into `folder`, which must be new or empty.

    Returns the folder, the launch command, the check that was used, and what the data do not carry.
    Raises BackendRefused, ExportRefused, StoreError.
    """
    if job.backend == "tutti":
        raise BackendRefused("--write-only: is for another backend; name it with --backend")
    plan = BackendJob(job, base.resolve(), training_set, folder.resolve())
    with whole_folder(folder) as unfinished:
        written = write_all(backend_of(job.backend), plan, unfinished, catalog)
    return {"folder": str(folder), "launch": f"bash {folder / 'launch.sh'}", **written}


def configure_policy(
    job: PolicyJob, name: str, base: Model, folder: Path, home: Home | None = None
) -> dict[str, Any]:
    """Write everything that the backend needs into `folder`, which must be new or empty, without
    the tasks that copy held-out ones of the store or the job.

    Returns the folder, the launch command, the check that was used, the number of tasks, and how
    the backend differs. Raises BackendRefused, BenchmarkError, JobError, SuiteError.
    """
    backend = policy_backend_of(name)
    plan, left_out = _plan(job, backend, base, folder.resolve(), home)
    with whole_folder(folder) as unfinished:
        backend.write_data(plan, unfinished)
        checked = _write(backend, plan, unfinished)
    notes = {"tasks to train on": len(plan.train.tasks), "tasks held out": len(plan.held_out.tasks)}
    notes |= Counter(f"tasks left out: {why}" for why in left_out.values())
    differences = [*DIFFERENCES, *backend.differences(plan)]
    for name in ("thinking", "request"):  # fields of the base that no backend is told
        if getattr(base, name) not in (None, {}):
            differences.append(f"models.{job.base}.{name}: its requests do not have it")
    written = {"checked": checked, "notes": notes, "differences": differences}
    return {"folder": str(folder), "launch": f"bash {folder / 'launch.sh'}", **written}


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `folder` at the end; it is removed on failure. Raises
    BackendRefused if `folder` is not new or empty."""
    if folder.is_dir() and any(folder.iterdir()):
        raise BackendRefused(f"--write-only: {folder} is not empty")
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        yield unfinished
        if folder.is_dir():
            folder.rmdir()
        unfinished.chmod(0o755)
        unfinished.replace(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def write_all(
    backend: SetBackend, plan: BackendJob, folder: Path, catalog: Catalog
) -> dict[str, Any]:
    """Write configuration, data and `launch.sh` into `folder`; paths in them are the plan's.
    Returns `checked` and `notes`. Raises BackendRefused, ExportRefused."""
    job, reasons = plan.job, []
    if job.objective != "sft":
        reasons.append(f"objective: {job.objective} is trained by tutti; {backend.name}: sft")
    if job.minutes is not None:
        reasons.append(f"minutes: {backend.name} ends by `epochs` or `steps`")
    _refuse(backend, reasons or backend.refuse(plan))
    checked, notes = _write(backend, plan, folder), Counter[str]()
    if backend.data_format is not None:
        conversations = conversations_of(plan.training_set.set_id, catalog, notes)
        write_conversations(conversations, backend.data_format, folder / "data", notes)
    return {"checked": checked, "notes": {note: n for note, n in notes.items() if n}}


def _write(backend: Backend[Any], plan: Any, folder: Path) -> str:
    """Write the configuration and `launch.sh`, which runs in its own folder. Returns the check that
    was used. Raises BackendRefused."""
    python = backend_python(backend.name)
    if python is None:
        check_names(backend, plan.job.backend_settings)
    text, launch = backend.write(plan, backend.settings(plan))
    (folder / backend.config_file).write_text(text)
    (folder / "launch.sh").write_text(HEADER + launch)
    if python is None:
        return f"names of settings only, by those of {known_names(backend.schema)[0]}"
    # -I: this folder has modules of the names of backends
    command = [str(python), "-I", str(CHECKER), backend.schema, str(folder / backend.config_file)]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "DISABLE_VERSION_CHECK": "0"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=CHECK_S, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        raise BackendRefused(f"backend: {backend.name}: {python} took over {CHECK_S} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        refused = done.returncode == REFUSED
        what = "its schema refuses this" if refused else f"its check ended with {done.returncode}"
        raise BackendRefused(f"backend_settings: {backend.name}: {what}: {lines[-1]}")
    return f"{backend.name}'s own schema, in {python.parent.parent}"


def backend_python(name: str) -> Path | None:
    """Return the Python of a backend's environment, if there is one that can check a configuration:
    TUTTI_<NAME>_PYTHON, or else one in `.venv-backends`; TRL is in the models environment."""
    if name not in CHECKS:
        return None
    folder = PROJECT if IS_SOURCE else Path.cwd()
    usual = folder / ".venv-backends" / name / "bin" / "python"
    given = os.environ.get(f"TUTTI_{name.replace('-', '_').upper()}_PYTHON")
    python = Path(given or (models_python_path() if name == "trl" else usual))
    return python if python.is_file() else None


def _plan(
    job: PolicyJob, backend: PolicyBackend, base: Model, folder: Path, home: Home | None
) -> tuple[PolicyPlan, dict[str, str]]:
    """Return the plan of a job's tasks, and the tasks left out. Raises BackendRefused with
    everything that cannot be carried."""
    _refuse(backend, not_carried(job))
    if base.checkpoint is None:
        raise BackendRefused(f"base: {job.base} has no checkpoint in models.yaml")
    longest = job.suite.reply_tokens(base.context_tokens)
    if longest >= base.context_tokens:
        raise BackendRefused(
            f"suite.sampling.max_tokens: {longest} leaves no room for a prompt in the "
            f"{base.context_tokens} tokens of models.{job.base}.context_tokens"
        )
    train, test = TaskSet.read(rollout_suite(job)), TaskSet.read(held_out_suite(job))
    test = replace(test, tasks=test.tasks[: job.evaluation.limit])
    tasks = keep_apart(train, test, job, home)
    train = replace(train, tasks=tasks.kept)
    _refuse(backend, (*not_carried_of(train, "suite"), *not_carried_of(test, "evaluation")))
    weights = weights_folder(base).resolve()
    plan = PolicyPlan(job, weights, base.context_tokens, train, test, folder)
    _refuse(backend, backend.refuse(plan))
    return plan, tasks.left_out


def _refuse(backend: Backend[Any], reasons: Iterable[str]) -> None:
    if every := "; ".join(reasons):
        raise BackendRefused(f"{backend.name} cannot be told all of the job: {every}")
