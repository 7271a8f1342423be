"""Running a policy job from its cells to a registered checkpoint with its held-out scores."""

import shutil
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from tutti.storage import Home, artifact_id, connect, query
from tutti.tasks.platform.gpus import lease_gpus_async
from tutti.tasks.platform.progress import Run, code_version, describe_machine
from tutti.tasks.scoring.metrics import pass_at_k
from tutti.tasks.scoring.statistics import mean_interval
from tutti.tasks.serving.registry import checkpoint_id as weights_of
from tutti.tasks.serving.registry import weights_folder
from tutti.tasks.sweeps.analysis import Side, compare_sides
from tutti.tasks.sweeps.plan import Deployment
from tutti.tasks.training.checkpoints import (
    Checkpoint,
    ends_of_base,
    enter_checkpoint,
    known_checkpoint,
)
from tutti.tasks.training.jobs.settings import TrainerSettings
from tutti.tasks.training.jobs.stage import Report
from tutti.tasks.training.policy.cells import PolicyCells
from tutti.tasks.training.policy.job import PolicyJob
from tutti.tasks.training.policy.loop import PolicyRun, ServedPolicy, Show
from tutti.tasks.training.policy.trainer import PolicyTrainer
from tutti.terminal import table

OF_SIDES = ("where", "name_a", "name_b", "cells_a", "cells_b")
SCORES = (
    "select task_id, is_right, headline_score from counted where cell_id = $cell "
    "order by task_id, trial"
)


def held_out_score(cell_id: str, home: Home) -> dict[str, Any]:
    """Return the mean score and accuracy of a cell with their 95 % intervals over tasks, not
    trials; pass@k if every task has k trials."""
    scores: dict[str, list[float]] = {}
    right: dict[str, list[float]] = {}
    for row in query(SCORES, home, {"cell": cell_id}):
        scores.setdefault(row["task_id"], []).append(row["headline_score"])
        right.setdefault(row["task_id"], []).append(float(row["is_right"]))
    if not scores:
        return {"n": 0, "attempts": 0, "accuracy": 0.0, "wilson_95": [0.0, 1.0],
                "score": 0.0, "score_95": [0.0, 1.0], "pass_at_k": {}}  # fmt: skip
    mean, accuracy = mean_interval([*scores.values()]), mean_interval([*right.values()])
    trials = min(len(each) for each in right.values())
    ks = {1, trials} if trials > 1 else ()
    return {
        "n": len(scores),
        "attempts": sum(len(each) for each in scores.values()),
        "accuracy": accuracy.value,
        "wilson_95": [accuracy.low, accuracy.high],
        "score": mean.value,
        "score_95": [mean.low, mean.high],
        "pass_at_k": {str(k): pass_at_k([*right.values()], k).value for k in ks},
    }


def paired(evaluated: Mapping[int, str], home: Home) -> dict[str, Any] | None:
    """Return the difference of mean score between the last and first evaluation, paired by task;
    None with only one. `evaluated`: cells by steps."""
    cells = [evaluated[after] for after in sorted(evaluated)]
    if len(cells) < 2 or cells[0] == cells[-1]:
        return None
    with closing(connect(home, ("counted", "lost_samples"))) as connection:
        sides = [Side.find(connection, cell) for cell in (cells[0], cells[-1])]
        assert sides[0] is not None and sides[1] is not None, f"evaluated: {cells}"
        (found,) = compare_sides(connection, sides[0], sides[1])
    return {name: value for name, value in asdict(found).items() if name not in OF_SIDES}


def summary_table(card: Mapping[str, Any]) -> tuple[Table, list[dict[str, Any]]]:
    """Return held-out scores after each evaluation, and the difference of the last to the first."""
    rows = []
    for after, each in card["held_out"].items():
        row = {"after step": after, "tasks": each["n"], "score": f"{each['score']:.1%}"}
        low, high = each["score_95"]
        known = low is not None and high is not None
        row |= {"95 %": f"{low:.1%} to {high:.1%}" if known else "unknown"}
        row["correct"] = f"{each['accuracy']:.1%}"
        more = each["pass_at_k"].items()
        rows.append(row | {f"pass@{k}": f"{value:.1%}" for k, value in more if k != "1"})
    columns = dict.fromkeys(rows[0] if rows else (), "right")
    shown = table(columns, [[*row.values()] for row in rows], "held-out tasks")
    if (found := card["paired"]) is not None and found["ci_low"] is not None:
        points, low, high = (100 * found[name] for name in ("difference", "ci_low", "ci_high"))
        shown.caption = f"score {points:+.1f} points [{low:+.1f}, {high:+.1f}], paired by task"
    return shown, rows


async def train_policy_job(
    job: PolicyJob,
    cells: PolicyCells,
    deployment: Deployment,
    run: Run,
    show: Show,
    on_step: Report = lambda row: None,
) -> Checkpoint:
    """Run a job to its end and register its checkpoint, or reuse an existing one. `on_step` is
    called with all figures of each finished step. Raises TrainingFailed."""
    catalog = run.catalog
    base = weights_folder(deployment.model)
    base_id = weights_of(deployment.model)
    kind = "checkpoint" if job.lora is None else "adapter"
    checkpoint_id = artifact_id(kind, [cells.rollouts.sweep_id], [base_id])
    if (known := known_checkpoint(checkpoint_id, catalog)) is not None:
        return known
    # Batches, weights and state until the checkpoint is made.
    work = catalog.home.artifacts / f"{checkpoint_id.replace(':', '-')}.work"
    trained = work / "checkpoint"
    await deployment.start_for(cells.rollouts.suite)
    claim = job.claim(run.run_id, f"training {checkpoint_id}")
    process, ends = job.reward.process, ends_of_base(base)
    judge = None if process is None else deployment.served.get(process.judge or "")
    async with lease_gpus_async(catalog, claim, lambda text: show(0, text)) as gpus:
        longest = deployment.model.context_tokens
        batch = {"tokens": job.batch_tokens, "max_tokens": longest}
        settings = TrainerSettings.of(  # its data come as batches, so none is named
            job, base, base.resolve(), batch=batch, steps=job.steps, updates=job.updates
        )
        with PolicyTrainer(settings, work, trained, catalog, on_step, gpus) as trainer:
            served = ServedPolicy(job, deployment, work)
            policy = PolicyRun(job, cells, served, trainer, ends, run, judge, show)
            policy.stop_at = job.stop_at
            await policy.to_the_end()
    home = catalog.home
    card = {
        "name": job.name,
        "base": base_id,
        "objective": {"name": job.objective, **job.objective_settings},
        "settings": job.model_dump(mode="json"),
        "data": {"dropped": cells.left_out},
        "steps": len(policy.done),
        "held_out": {
            str(after): held_out_score(cell_id, home) for after, cell_id in policy.evaluated.items()
        },
        "paired": paired(policy.evaluated, home),
        "machine": describe_machine(),
        "code_version": code_version(),
    }
    checkpoint = Checkpoint(checkpoint_id, home.artifact_folder(checkpoint_id), card, reused=False)
    _register(checkpoint, trained, [base_id, cells.rollouts.sweep_id], policy.done, run)
    return checkpoint


def _register(
    checkpoint: Checkpoint, trained: Path, parents: list[str], steps: list[dict[str, Any]], run: Run
) -> None:
    """Move the trained weights to their place and enter them; repeated after a kill."""
    if checkpoint.folder.is_dir():  # moved by a process that was killed before it had entered it
        shutil.rmtree(checkpoint.folder)
    trained.rename(checkpoint.folder)
    enter_checkpoint(checkpoint, parents, steps, run)
    shutil.rmtree(trained.parent)  # the state is several times as large as the weights
