"""Train on a frozen set: start the trainer, follow it, register the checkpoint.

In: a job, a base checkpoint, a training set. Out: an artifact (``checkpoint:`` or ``adapter:``)
with its parents and card, and rows of `train_steps`. A job that was stopped goes on from its last
state.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti.storage import Catalog, artifact_id
from tutti.tasks.runs import Run, code_version, describe_machine
from tutti.tasks.training.job import JobError, TrainJob
from tutti.tasks.training.sets.frozen import TrainingSet
from tutti.tasks.training.settings import TrainerSettings
from tutti.tasks.training.stage import Report, record_steps, run_job

TRAINER = "tutti.tasks.training.trainer"
EVALUATIONS = 10


@dataclass(frozen=True)
class Checkpoint:
    """A trained checkpoint, or adapter."""

    checkpoint_id: str
    folder: Path
    card: Mapping[str, Any]
    reused: bool


def ends_of_base(base: Path) -> frozenset[int]:
    """The ids that end a turn of the base's model. Raises JobError where its files do not say."""
    found: set[int] = set()
    for name in ("generation_config.json", "config.json"):
        file = base / name
        if file.is_file():
            ids = json.loads(file.read_text()).get("eos_token_id")
            found |= {ids} if isinstance(ids, int) else set(ids or ())
    if not found:
        raise JobError(f"base: {base}: no eos_token_id in generation_config.json or config.json")
    return frozenset(found)


def fit_set(
    job: TrainJob,
    base: tuple[Path, str],
    training_set: TrainingSet,
    run: Run,
    on_report: Report = lambda row: None,
) -> Checkpoint:
    """Train `job` on a base (folder, id) and a set; an existing checkpoint is reused.

    Raises TrainingFailed with the trainer's words, StoreError.
    """
    catalog, (folder, base_id) = run.catalog, base
    kind = "checkpoint" if job.lora is None else "adapter"
    said = job.model_dump(mode="json", exclude={"data", "base", "name"})
    checkpoint_id = artifact_id(kind, said, [base_id, training_set.set_id])
    known = catalog.artifact(checkpoint_id)
    out = catalog.home.artifact_folder(checkpoint_id)
    if known is not None and known["path"].is_dir():
        return Checkpoint(checkpoint_id, out, known["detail"], reused=True)
    settings = trainer_settings(job, folder, training_set)
    reports = run_trainer(settings, out, catalog, on_report)
    record_steps(catalog, run.run_id, checkpoint_id, reports)
    trained = json.loads((out / "training.json").read_text())
    card = {
        "name": job.name,
        "base": base_id,
        "training_set": training_set.set_id,
        "objective": {"name": job.objective, **job.objective_settings},
        "settings": said,
        "data": dict(training_set.manifest),
        **{name: trained[name] for name in ("steps", "tokens", "train_s", "parameters")},
        "best_held_out": trained["best_held_out"],
        "machine": describe_machine(),
        "code_version": code_version(),
    }
    (out / "card.json").write_text(json.dumps(card, indent=1) + "\n")
    catalog.enter_artifact(checkpoint_id, card, [base_id, training_set.set_id], out)
    return Checkpoint(checkpoint_id, out, card, reused=False)


def trainer_settings(job: TrainJob, base: Path, training_set: TrainingSet) -> TrainerSettings:
    """What the trainer's process is told."""
    epochs = job.epochs
    if epochs is None and job.steps is None and job.minutes is None:
        epochs = 1.0
    return TrainerSettings(
        base=base.resolve(),
        data=training_set.rows,
        held_out=training_set.held_out,
        objective=job.objective,
        objective_settings=job.objective_settings,
        lora=job.lora,
        optimizer=job.optimizer,
        batch=job.batch,
        epochs=epochs,
        steps=job.steps,
        seconds=None if job.minutes is None else job.minutes * 60,
        dtype=job.dtype,
        gradient_checkpointing=job.gradient_checkpointing,
        seed=job.seed,
        evaluate_every=max(1, (job.steps or 500) // EVALUATIONS),
    )


def run_trainer(
    settings: TrainerSettings, out: Path, catalog: Catalog, on_report: Report
) -> list[dict[str, Any]]:
    """Run the trainer to its end; `out` appears only if it succeeds. Returns its reports."""
    file, state = out.with_suffix(".settings.json"), out.with_suffix(".state")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(settings.model_dump_json(indent=1))
    arguments = ["--settings", str(file), "--state", str(state)]
    reports = run_job(TRAINER, arguments, out, catalog, on_report)
    file.replace(out / "settings.json")
    return reports
