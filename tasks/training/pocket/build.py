"""Building the pocket checkpoint: training files from gated tasks, then the job that trains it.
Platform side. In: a task set made with `POCKET_TASKS`. Out: a checkpoint folder and its card."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from tutti.errors import UsageError
from tutti.storage import Catalog, content_hash
from tutti.tasks.platform import IS_SOURCE, PACKAGE
from tutti.tasks.retrieval import load_stdlib_corpus
from tutti.tasks.serving import RegistryError
from tutti.tasks.serving.engines import models_python
from tutti.tasks.serving.registry import Model, pick_model
from tutti.tasks.synthesis import POCKET_FAMILIES, TaskRequest, read_conversations
from tutti.tasks.training.jobs.stage import Report, run_job, write_jsonl

POCKET_TASKS = TaskRequest(
    families=POCKET_FAMILIES, train_per_family=10_000, test_per_family=60, seed=0
)


def served_from(out: Path, registry: Path) -> Model:
    """Return the registry's `pocket`, served from the checkpoint that the training writes to `out`.

    Raises ModelsEnvironmentMissing, RegistryError, and UsageError if `out` belongs to the installed
    package or holds files other than a checkpoint.
    """
    models_python()
    pocket = pick_model(registry, "pocket")
    if pocket.checkpoint is None:
        raise RegistryError(
            f"{registry}: models.pocket: is an endpoint; a trained checkpoint is served with vLLM, "
            "so replace `endpoint` by `checkpoint` and `engine`"
        )
    if not IS_SOURCE and PACKAGE.resolve() in out.resolve().parents:
        raise UsageError(f"{out}: is in the installed package; name another folder")
    if out.exists() and os.listdir(out) and not (out / "config.json").is_file():
        raise UsageError(f"{out}: is not empty and holds no checkpoint; name another folder")
    return pocket.model_copy(update={"checkpoint": out.resolve()})


def train_pocket(
    task_set_id: str, out: Path, settings: dict[str, Any], catalog: Catalog, on_report: Report
) -> dict[str, Any]:
    """Train the pocket model on a task set's train split; return the training half of the card.

    `out` is replaced when the training succeeds. `settings` are flags of
    `tutti.tasks.training.pocket.train`. Raises TrainingFailed, StoreError.
    """
    work = catalog.home.artifact_folder(task_set_id.replace("task_set", "pocket"))
    work.mkdir(parents=True, exist_ok=True)
    files = {
        "corpus": [d.as_row() for d in load_stdlib_corpus() if d.split == "train"],
        "trajectories": read_conversations(catalog, task_set_id, "train"),
        "held-out": read_conversations(catalog, task_set_id, "test"),
    }
    arguments = []
    for name, rows in files.items():
        write_jsonl(rows, work / f"{name}.jsonl")
        arguments += [f"--{name}", str(work / f"{name}.jsonl")]
    for name, value in settings.items():
        arguments += [f"--{name.replace('_', '-')}", str(value)]
    # One saved state per recipe: another length or seed is another training.
    state = work / f"state-{content_hash(settings)}.pt"
    arguments += ["--state", str(state)]
    trained = work / "checkpoint"
    run_job("tutti.tasks.training.pocket.train", arguments, trained, catalog, on_report)
    record = json.loads((trained / "training.json").read_text())
    staging = out.with_name(out.name + ".tmp")
    shutil.rmtree(staging, ignore_errors=True)
    shutil.copytree(trained, staging)
    shutil.rmtree(out, ignore_errors=True)
    os.replace(staging, out)
    state.unlink(missing_ok=True)
    return {
        "data": {
            "task_set_id": task_set_id,
            "trajectories": len(files["trajectories"]),
            "training_documents": len(files["corpus"]),
            "data_hash": content_hash([files["corpus"], files["trajectories"]]),
        },
        "command": "tutti train pocket",
        **{name: record[name] for name in ("recipe", "parameters", "tokens")},
        "wall_s": round(record["seconds"]),
        "held_out_exact_teacher_forced": record["log"][-1]["held_out_exact"],
    }
