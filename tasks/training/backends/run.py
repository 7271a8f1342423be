"""Training with a backend that is installed here, as `run_trainer` does with our trainer.

In: a job whose backend runs here. Out: a folder with the checkpoint or adapter and `training.json`,
which appears only if the training succeeds.
"""

import json
import os
import shutil
import time
import uuid
from pathlib import Path

from tutti.storage import Catalog
from tutti.tasks.serving import ServingError
from tutti.tasks.serving.processes import Child
from tutti.tasks.serving.weights import parameters_in
from tutti.tasks.training.backends import backend_of
from tutti.tasks.training.backends.base import (
    BESIDE,
    OUTPUT,
    BackendJob,
    BackendRefused,
    SetBackend,
    json_lines,
)
from tutti.tasks.training.backends.configure import backend_python, write_all
from tutti.tasks.training.jobs.job import TrainJob
from tutti.tasks.training.jobs.stage import ENVIRONMENT, POLL_S, Report, TrainingFailed, run_job
from tutti.tasks.training.sets.frozen import TrainingSet

SILENT_S = 1800.0
"""A training that logs no step and prints nothing for so long is ended."""


def run_backend(
    job: TrainJob,
    base: Path,
    training_set: TrainingSet,
    out: Path,
    catalog: Catalog,
    on_report: Report,
) -> None:
    """Train to the end; `out` appears only if the training succeeds. Raises BackendRefused for a
    backend that is not installed here, and TrainingFailed with the backend's message."""
    backend, python = backend_of(job.backend), backend_python(job.backend)
    if not backend.runs_here:
        raise BackendRefused(
            f"backend: {backend.name} runs on a cluster; --write-only FOLDER writes what it needs"
        )
    if python is None:
        raise BackendRefused(f"backend: {backend.name} is not installed here; run `make backends`")
    staging = out.with_name(f"{out.name}.{uuid.uuid4().hex}.tmp")
    staging.mkdir(parents=True)
    on_cpu = shutil.which("nvidia-smi") is None
    plan = BackendJob(job, base.resolve(), training_set, staging, on_cpu)
    try:
        write_all(backend, plan, staging, catalog)
        began = time.monotonic()
        _follow(backend, python, plan, catalog, on_report)
        _finish(backend, plan, time.monotonic() - began, catalog)
        shutil.rmtree(out, ignore_errors=True)
        (staging / OUTPUT).replace(out)
    except ServingError as error:
        raise TrainingFailed(str(error)) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _follow(
    backend: SetBackend, python: Path, plan: BackendJob, catalog: Catalog, on_report: Report
) -> None:
    """Run `launch.sh` with the backend's environment first in the path."""
    path = f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    command = ["bash", str(plan.folder / "launch.sh")]
    seen, size, changed = 0, -1, time.monotonic()
    with Child(backend.name, command, ENVIRONMENT | {"PATH": path}, catalog) as child:
        while (code := child.poll()) is None:
            rows = backend.read_steps(plan.folder)
            for row in rows[seen:]:
                on_report(row | {"of": plan.steps, "done": row["step"] / plan.steps})
            printed = child.log.stat().st_size if child.log.is_file() else 0
            if len(rows) > seen or printed != size:
                seen, size, changed = len(rows), printed, time.monotonic()
            if time.monotonic() - changed > SILENT_S:
                raise TrainingFailed(f"{backend.name} was silent for {SILENT_S:.0f} s and is ended")
            time.sleep(POLL_S)
        if code:
            raise TrainingFailed(f"{backend.name} exited with code {code}; {child.last_words()}")


def _finish(backend: SetBackend, plan: BackendJob, seconds: float, catalog: Catalog) -> None:
    """Write `training.json` beside the weights, with the loss that our trainer measures."""
    out = plan.folder / OUTPUT
    log = backend.read_steps(plan.folder)
    if not log or not any(out.glob("*.safetensors")):
        raise TrainingFailed(f"{backend.name} ended without a step or weights in {out}")
    counts = json.loads((plan.folder / "tokens" / "counts.json").read_text())
    results = out / "train_results.json"
    reported = [json.loads(results.read_text())] if results.is_file() else []
    reported += json_lines(out / "trainer_log.jsonl")
    times = [row["train_runtime"] for row in reported if "train_runtime" in row]
    result = {"steps": log[-1]["step"], "tokens": log[-1].get("tokens"), "log": log, **counts}
    result["train_s"] = float(times[0]) if times else seconds
    result["parameters"] = parameters_in(plan.base)
    result["best_held_out"] = measured(plan, out, catalog)
    (out / "training.json").write_text(json.dumps(result, indent=1))
    shutil.copy(plan.folder / backend.config_file, out / "settings.json")
    (out / "training_args.bin").unlink(missing_ok=True)  # a pickle, which nothing here reads


def measured(plan: BackendJob, out: Path, catalog: Catalog) -> float | None:
    """Return the loss per trained token on the held-out rows, measured by our own trainer."""
    held_out = plan.training_set.held_out
    if held_out is None:
        return None
    arguments = ["measure", "--base", str(plan.base), "--made", str(out), "--rows", str(held_out)]
    reports = run_job(BESIDE, arguments, plan.folder / "measured", catalog, lambda row: None)
    return float(reports[-1]["held_out_loss"])
