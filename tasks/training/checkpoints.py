"""Train on a frozen set: start the trainer, follow it, register the checkpoint.

In: a job, a base checkpoint, a training set. Out: an artifact (``checkpoint:`` or ``adapter:``)
with its parents and card, and rows of `train_steps`. A job that was stopped goes on from its last
state.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti.storage import Catalog, artifact_id, held
from tutti.tasks.gpus import DEFAULT_CLAIM, GpuClaim
from tutti.tasks.reporting import steps_recorded
from tutti.tasks.runs import Run, code_version, describe_machine
from tutti.tasks.serving import checkpoint_id, pick_model, weights_folder
from tutti.tasks.serving.weights import is_hub_name, require_trainable, resolve_hub, weights_id
from tutti.tasks.training.backends.run import run_backend
from tutti.tasks.training.job import MACHINE_FIELDS, JobError, TrainJob
from tutti.tasks.training.sets.build import build_set, conversation_set
from tutti.tasks.training.sets.frozen import TrainingSet
from tutti.tasks.training.settings import TrainerSettings, best_of
from tutti.tasks.training.stage import TRAINER, Report, record_steps, run_job

EVALUATIONS = 10
SERVED = ("model.safetensors", "model.safetensors.index.json")
"""One of these is in a folder that an engine can serve: weights in one file, or in shards."""
RESULT = "training.json"
"""What the trainer writes last."""


@dataclass(frozen=True)
class Checkpoint:
    """A trained checkpoint, or adapter."""

    checkpoint_id: str
    folder: Path
    card: Mapping[str, Any]
    reused: bool

    def as_result(self) -> dict[str, Any]:
        """What a flow returns of it, and ``--json`` prints."""
        return {
            "checkpoint": self.checkpoint_id,
            "folder": str(self.folder),
            "card": dict(self.card),
            "reused": self.reused,
        }


def base_of(name: str, models: Path) -> tuple[Path, str]:
    """(folder, id) of a base: a folder with weights, NAME@REVISION of the Hub, or the registry's
    entry of that name. What the Hub's cache lacks is fetched, after its size was told on stderr.

    Raises JobError, RegistryError, WeightsError.
    """
    if Path(name).is_dir() or is_hub_name(name):
        folder = Path(name) if Path(name).is_dir() else resolve_hub(name)
        base = folder, weights_id(folder)
    else:
        model = pick_model(models, name)
        if model.checkpoint is None:
            raise JobError(
                f"base: {name} has no checkpoint in {models}; only weights can be trained"
            )
        base = weights_folder(model), checkpoint_id(model)
    require_trainable(base[0])
    return base


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


def frozen_set(job: TrainJob, base: Path, catalog: Catalog) -> TrainingSet:
    """The training set of a job, of a file or of what its query names. Raises JobError."""
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
    """Train `job` on a base (folder, id) and a set; an existing checkpoint is reused.

    Raises TrainingFailed with the trainer's words, StoreError.
    """
    catalog, (folder, base_id) = run.catalog, base
    kind = "checkpoint" if job.lora is None else "adapter"
    made_id = artifact_id(kind, settings_of(job), [base_id, training_set.set_id])
    if (known := known_checkpoint(made_id, catalog)) is not None:
        return known
    out = catalog.home.artifact_folder(made_id)
    with held(catalog, f"training {made_id}"):  # two at once would write one state
        if not (out / RESULT).is_file():  # else it was killed after its end
            _train(job, folder, training_set, out, run, on_report)
        _tidy(out)
        trained = json.loads((out / RESULT).read_text())
        card = _card(job, base_id, training_set, trained)
        (out / "card.json").write_text(json.dumps(card, indent=1) + "\n")
        catalog.enter_artifact(base_id, {"folder": str(folder)})
        made = Checkpoint(made_id, out, card, reused=False)
        enter_checkpoint(made, [base_id, training_set.set_id], trained["log"], run)
    return made


def known_checkpoint(checkpoint_id: str, catalog: Catalog) -> Checkpoint | None:
    """A checkpoint that was trained before; None where it, or its folder, is not there."""
    known = catalog.artifact(checkpoint_id)
    if known is None or not known["path"].is_dir():
        return None
    folder = catalog.home.artifact_folder(checkpoint_id)
    return Checkpoint(checkpoint_id, folder, known["detail"], reused=True)


def enter_checkpoint(
    made: Checkpoint, parents: list[str], steps: list[dict[str, Any]], run: Run
) -> None:
    """Enter a checkpoint, whose base is its first parent, and its steps, recorded once."""
    catalog = run.catalog
    if not steps_recorded(made.checkpoint_id, catalog.home):
        record_steps(catalog, run.run_id, made.checkpoint_id, steps)
    _enter_served(made, parents[0], catalog)
    catalog.enter_artifact(made.checkpoint_id, dict(made.card), parents, made.folder)


def _enter_served(made: Checkpoint, base_id: str, catalog: Catalog) -> None:
    """Link what engines serve, which is named by its weights, to the training that made it."""
    for folder in (made.folder, made.folder / "best"):
        if any((folder / name).is_file() for name in SERVED):
            served = weights_id(folder)
            if served != base_id:  # weights that did not change are not their own ancestor
                catalog.enter_artifact(served, {"folder": str(folder)}, [made.checkpoint_id])


def settings_of(job: TrainJob) -> dict[str, Any]:
    """What decides the checkpoint, beside base and training set."""
    ours = {"backend", "backend_settings"} if job.backend == "tutti" else set()
    left_out = {"data", "base", "name", "save_every_s", *MACHINE_FIELDS} | ours
    return job.model_dump(mode="json", exclude=left_out)


def _train(
    job: TrainJob,
    base: Path,
    training_set: TrainingSet,
    out: Path,
    run: Run,
    on_report: Report,
) -> None:
    """Train with the job's backend; `out` appears only if it succeeds."""
    if job.backend == "tutti":
        claim = job.claim(run.run_id, f"training {out.name}")
        settings = trainer_settings(job, base, training_set)
        run_trainer(settings, out, run.catalog, on_report, claim)
    else:
        run_backend(job, base, training_set, out, run.catalog, on_report)


def _card(
    job: TrainJob, base_id: str, training_set: TrainingSet, trained: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "name": job.name,
        "base": base_id,
        "training_set": training_set.set_id,
        "objective": {"name": job.objective, **job.objective_settings},
        "settings": settings_of(job),
        "data": dict(training_set.manifest),
        **{name: trained[name] for name in ("steps", "tokens", "train_s", "parameters")},
        "best_held_out": trained["best_held_out"],
        "machine": describe_machine(),
        "code_version": code_version(),
    }


def trainer_settings(job: TrainJob, base: Path, training_set: TrainingSet) -> TrainerSettings:
    """What the trainer's process is told."""
    return TrainerSettings.of(
        job,
        base,
        training_set.rows,
        held_out=training_set.held_out,
        batch=job.batch,
        epochs=job.passes,
        steps=job.steps,
        seconds=None if job.minutes is None else job.minutes * 60,
        save_every_s=job.save_every_s,
        stop_at=job.stop_at,
        evaluate_every=max(1, (job.steps or 500) // EVALUATIONS),
    )


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
    """Settle what lies beside a whole checkpoint, after a kill too: there is nothing to go on
    from any more."""
    file, state = _beside(out)
    if file.is_file():
        file.replace(out / "settings.json")
    state.unlink(missing_ok=True)
    if best_of(state).is_dir():
        shutil.rmtree(best_of(state))


def _beside(out: Path) -> tuple[Path, Path]:
    """The settings of a training under way, and its state."""
    return out.with_suffix(".settings.json"), out.with_suffix(".state")
