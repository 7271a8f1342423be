"""Training on a frozen set: start the trainer, follow it, register the checkpoint.

Out: an artifact (``checkpoint:`` or ``adapter:``) with its parents and card, and rows of
`train_steps`. A stopped job resumes from its last state.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti.storage import Catalog, artifact_id, held
from tutti.tasks.platform.gpus import DEFAULT_CLAIM, GpuClaim
from tutti.tasks.platform.progress import Run, code_version, describe_machine
from tutti.tasks.reporting import steps_recorded
from tutti.tasks.serving.registry import checkpoint_id, pick_model, weights_folder
from tutti.tasks.serving.weights import is_hub_name, require_trainable, resolve_hub, weights_id
from tutti.tasks.training.backends.run import run_backend
from tutti.tasks.training.jobs.job import MACHINE_FIELDS, JobError, TrainJob
from tutti.tasks.training.jobs.settings import TrainerSettings, best_of
from tutti.tasks.training.jobs.stage import TRAINER, Report, record_steps, run_job
from tutti.tasks.training.sets.build import build_set, conversation_set
from tutti.tasks.training.sets.frozen import TrainingSet

EVALUATIONS = 10
SERVED = ("model.safetensors", "model.safetensors.index.json")
"""One of these is in a folder that an engine can serve: weights in one file, or in shards."""
OF_CARD = ("steps", "tokens", "train_s", "parameters", "best_held_out")
RESULT = "training.json"


@dataclass(frozen=True)
class Checkpoint:
    """A trained checkpoint, or adapter."""

    checkpoint_id: str
    folder: Path
    card: Mapping[str, Any]
    reused: bool

    def as_result(self) -> dict[str, Any]:
        """Return the checkpoint as a flow's result, also used by ``--json``."""
        known = {"folder": str(self.folder), "card": dict(self.card), "reused": self.reused}
        return {"checkpoint": self.checkpoint_id, **known}


def base_of(name: str, models: Path) -> tuple[Path, str]:
    """(folder, id) of a base: a folder with weights, NAME@REVISION of the Hub, or the name of a
    registry entry. A model that the Hub's cache lacks is downloaded, after its size is printed.

    Raises JobError, RegistryError, WeightsError.
    """
    if Path(name).is_dir() or is_hub_name(name):
        folder = Path(name) if Path(name).is_dir() else resolve_hub(name)
        base_id = weights_id(folder)
    elif (model := pick_model(models, name)).checkpoint is None:
        raise JobError(f"base: {name} has no checkpoint in {models}; only weights can be trained")
    else:
        folder, base_id = weights_folder(model), checkpoint_id(model)
    require_trainable(folder)
    return folder, base_id


def ends_of_base(base: Path) -> frozenset[int]:
    """Ids that end a turn of the base's model. Raises JobError if its files do not define them."""
    ends: set[int] = set()
    for file in (base / "generation_config.json", base / "config.json"):
        if file.is_file():
            ids = json.loads(file.read_text()).get("eos_token_id")
            ends |= {ids} if isinstance(ids, int) else set(ids or ())
    if not ends:
        raise JobError(f"base: {base}: no eos_token_id in generation_config.json or config.json")
    return frozenset(ends)


def frozen_set(job: TrainJob, base: Path, catalog: Catalog) -> TrainingSet:
    """Return the training set of a job, from its file or its query. Raises JobError."""
    if job.data.file is not None:
        return conversation_set(job.data, catalog)
    return build_set(job.data, ends_of_base(base), catalog, job.objective, base)


def fit_set(
    job: TrainJob,
    base: tuple[Path, str],
    training_set: TrainingSet,
    run: Run,
    on_report: Report = lambda row: None,
) -> Checkpoint:
    """Train `job` on a base (folder, id) and a set, or reuse an existing checkpoint. Raises
    TrainingFailed with the trainer's message, StoreError."""
    catalog, (folder, base_id) = run.catalog, base
    kind = "checkpoint" if job.lora is None else "adapter"
    own_id = artifact_id(kind, settings_of(job), [base_id, training_set.set_id])
    if (known := known_checkpoint(own_id, catalog)) is not None:
        return known
    out = catalog.home.artifact_folder(own_id)
    with held(catalog, f"training {own_id}"):  # two at once would write one state
        if not (out / RESULT).is_file():  # else it was killed after its end
            if job.backend == "tutti":
                settings = trainer_settings(job, folder, training_set)
                claim = job.claim(run.run_id, f"training {out.name}")
                run_trainer(settings, out, catalog, on_report, claim)
            else:
                run_backend(job, folder, training_set, out, catalog, on_report)
        _tidy(out)
        trained = json.loads((out / RESULT).read_text())
        card = {
            "name": job.name,
            "base": base_id,
            "training_set": training_set.set_id,
            "objective": {"name": job.objective, **job.objective_settings},
            "settings": settings_of(job),
            "data": dict(training_set.manifest),
            **{name: trained[name] for name in OF_CARD},
            "machine": describe_machine(),
            "code_version": code_version(),
        }
        (out / "card.json").write_text(json.dumps(card, indent=1) + "\n")
        catalog.enter_artifact(base_id, {"folder": str(folder)})
        checkpoint = Checkpoint(own_id, out, card, reused=False)
        enter_checkpoint(checkpoint, [base_id, training_set.set_id], trained["log"], run)
    return checkpoint


def known_checkpoint(checkpoint_id: str, catalog: Catalog) -> Checkpoint | None:
    """Return a checkpoint that was trained before; None if it or its folder is missing."""
    known = catalog.artifact(checkpoint_id)
    if known is None or not known["path"].is_dir():
        return None
    folder = catalog.home.artifact_folder(checkpoint_id)
    return Checkpoint(checkpoint_id, folder, known["detail"], reused=True)


def enter_checkpoint(
    checkpoint: Checkpoint, parents: list[str], steps: list[dict[str, Any]], run: Run
) -> None:
    """Enter a checkpoint, whose base is its first parent, and record its steps once."""
    catalog, own_id = run.catalog, checkpoint.checkpoint_id
    if not steps_recorded(own_id, catalog.home):
        record_steps(catalog, run.run_id, own_id, steps)
    _enter_served(checkpoint, parents[0], catalog)
    catalog.enter_artifact(own_id, dict(checkpoint.card), parents, checkpoint.folder)


def _enter_served(checkpoint: Checkpoint, base_id: str, catalog: Catalog) -> None:
    """Link the ids under which engines serve the weights to the training that produced them."""
    for folder in (checkpoint.folder, checkpoint.folder / "best"):
        if any((folder / name).is_file() for name in SERVED):
            served = weights_id(folder)
            if served != base_id:  # weights that did not change are not their own ancestor
                catalog.enter_artifact(served, {"folder": str(folder)}, [checkpoint.checkpoint_id])


def settings_of(job: TrainJob) -> dict[str, Any]:
    """Return the settings that a checkpoint's id depends on, besides base and training set."""
    ours = {"backend", "backend_settings"} if job.backend == "tutti" else set()
    left_out = {"data", "base", "name", "save_every_s", *MACHINE_FIELDS} | ours
    return job.model_dump(mode="json", exclude=left_out)


def trainer_settings(job: TrainJob, base: Path, training_set: TrainingSet) -> TrainerSettings:
    """Return the settings of the trainer's process."""
    more: dict[str, Any] = {
        "batch": job.batch,
        "steps": job.steps,
        "epochs": job.passes,
        "stop_at": job.stop_at,
    }
    more |= {"held_out": training_set.held_out, "save_every_s": job.save_every_s}
    more["seconds"] = None if job.minutes is None else job.minutes * 60
    more["evaluate_every"] = max(1, (job.steps or 500) // EVALUATIONS)
    return TrainerSettings.of(job, base, training_set.rows, **more)


def run_trainer(
    settings: TrainerSettings,
    out: Path,
    catalog: Catalog,
    on_report: Report,
    claim: GpuClaim = DEFAULT_CLAIM,
) -> None:
    """Run the trainer to its end; `out` appears only if it succeeds."""
    file, state = _beside(out)
    file.parent.mkdir(parents=True, exist_ok=True)
    for left in out.parent.glob(f"{out.name}.*.tmp"):  # by a run that was killed
        shutil.rmtree(left)
    file.write_text(settings.model_dump_json(indent=1))
    arguments = ["--settings", str(file), "--state", str(state)]
    run_job(TRAINER, arguments, out, catalog, on_report, claim)


def _tidy(out: Path) -> None:
    """Move the settings into a complete checkpoint and remove its state, also after a kill."""
    file, state = _beside(out)
    if file.is_file():
        file.replace(out / "settings.json")
    state.unlink(missing_ok=True)
    shutil.rmtree(best_of(state), ignore_errors=True)


def _beside(out: Path) -> tuple[Path, Path]:
    """Return the paths of the settings and the state of a training in progress."""
    return out.with_suffix(".settings.json"), out.with_suffix(".state")
