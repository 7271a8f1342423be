"""The flow `train-set`: a query's attempts (or a file's conversations) to a checkpoint.

Run: ``tutti train sft --base pocket --from "select attempt_id from counted where …"``, or from the
Prefect UI. A stopped job resumes; one that has a checkpoint does not run again.
"""

import asyncio
from pathlib import Path
from typing import Any

from prefect import flow
from rich.table import Table

from tutti.tasks.platform import MODELS
from tutti.tasks.platform.gpus import require_gpus
from tutti.tasks.platform.progress import (
    Run,
    StageProgress,
    leave_table,
    live_artifacts,
    open_run,
    stage,
)
from tutti.tasks.reporting import live_view, publish_if_recorded
from tutti.tasks.training import (
    Checkpoint,
    TrainingData,
    TrainingSet,
    TrainJob,
    base_of,
    fit_set,
    frozen_set,
)
from tutti.terminal import table

SOLVED = TrainJob(
    base="pocket",
    data=TrainingData(query="select attempt_id from counted where model = 'pocket' and is_right"),
)


@flow(name="train-set")
async def train_set(job: TrainJob = SOLVED, models: Path = MODELS) -> dict[str, Any]:
    """Train a checkpoint or an adapter on a frozen training set.

    Args:
       job: Base, data, objective and training settings.
       models: The model registry file, whose entries `base` may name.

    Returns the checkpoint's id, folder and card. Raises JobError before anything starts, and
    TrainingFailed with the trainer's message.
    """
    base = await asyncio.to_thread(base_of, job.base, models)  # it may be fetched first
    with open_run("train-set", job.model_dump(mode="json")) as run:
        require_gpus(job.claim(run.run_id, job.name), run.catalog.home)
        training_set = await freeze(run.log, job, base, run)
        checkpoint = await fit(run.log, job, base, training_set, run)
        run.log.console.print(_summary(checkpoint), soft_wrap=True)
        await leave_table(_rows(checkpoint), "checkpoint", "What was trained, on what, and how")
        await publish_if_recorded(checkpoint.checkpoint_id, run.catalog, run.log)
    return checkpoint.as_result()


@stage(name="training set", tags=("training",))
async def freeze(
    progress: StageProgress, job: TrainJob, base: tuple[Path, str], run: Run
) -> TrainingSet:
    """Build the training set or reuse an existing one, and show what was left out."""
    made = await asyncio.to_thread(frozen_set, job, base[0], run.catalog)
    progress.console.print(_dropped(made))
    return made


@stage(name="training", tags=("training",))
async def fit(
    progress: StageProgress,
    job: TrainJob,
    base: tuple[Path, str],
    training_set: TrainingSet,
    run: Run,
) -> Checkpoint:
    """Train to the end, with the loss beside the bar."""

    steps: list[dict[str, Any]] = []

    def show(row: dict[str, Any]) -> None:
        if "waiting" in row:
            progress.show(0, 100, row["waiting"])
        elif "step" in row:
            steps.append(row)
            done, total = (row["step"], row["of"]) if row["of"] else (row["done"] * 100, 100)
            progress.show(done, total, f"step {row['step']}, loss {row['loss']:.3f}")

    async with live_artifacts(progress, "training-steps", lambda: live_view(steps)):
        return await asyncio.to_thread(fit_set, job, base, training_set, run, show)


def _dropped(made: TrainingSet) -> Table:
    said = made.manifest
    named = "attempts" if "attempts" in said else "conversations"
    rows = [("named by the query" if named == "attempts" else "in the file", said[named])]
    dropped = sorted(said["dropped"].items(), key=lambda pair: -pair[1])
    rows += [(f"left out: {reason}", n) for reason, n in dropped]
    rows += [(f"guard of {guard}", what) for guard, what in said["guards"].items()]
    rows.append(("sequences", said["sequences"]))
    if "trained_tokens" in said:
        rows.append(("tokens, trained", f"{said['tokens']:,}, {said['trained_tokens']:,}"))
        rows.append(("calls cut, as context only", said["truncated_calls"]))
        rows += [(f"new sequences: {reason}", n) for reason, n in said["breaks"].items()]
    return table({named: "fold", "n": "right"}, rows, "training set")


def _summary(checkpoint: Checkpoint) -> str:
    word = "reused" if checkpoint.reused else "trained"
    serve = "an entry of models.yaml with this folder as its `checkpoint` serves it"
    return f"{word} {checkpoint.checkpoint_id}\n  {checkpoint.folder}\n  {serve}"


def _rows(checkpoint: Checkpoint) -> list[dict[str, Any]]:
    card = checkpoint.card
    names = ("name", "base", "training_set", "steps", "tokens", "train_s", "best_held_out")
    shown = {"checkpoint": checkpoint.checkpoint_id} | {each: card[each] for each in names}
    return [{"what": each, "value": str(value)} for each, value in shown.items()]
