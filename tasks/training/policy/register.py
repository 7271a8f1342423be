"""A policy job from its cells to a registered checkpoint with its held-out scores."""

import shutil
from pathlib import Path
from typing import Any

from tutti.storage import artifact_id
from tutti.tasks.gpus import lease_gpus_async
from tutti.tasks.runs import Run, code_version, describe_machine
from tutti.tasks.serving import checkpoint_id as weights_of
from tutti.tasks.serving import weights_folder
from tutti.tasks.sweeps.run import Bench
from tutti.tasks.training.checkpoints import (
    Checkpoint,
    ends_of_base,
    enter_checkpoint,
    known_checkpoint,
)
from tutti.tasks.training.policy.cells import PolicyCells
from tutti.tasks.training.policy.held_out import held_out_score, paired
from tutti.tasks.training.policy.job import PolicyJob
from tutti.tasks.training.policy.loop import PolicyRun, Show, work_folder
from tutti.tasks.training.policy.served import ServedPolicy
from tutti.tasks.training.policy.trainer import PolicyTrainer
from tutti.tasks.training.settings import TrainerSettings
from tutti.tasks.training.stage import Report


async def train_policy_job(
    job: PolicyJob,
    cells: PolicyCells,
    bench: Bench,
    run: Run,
    show: Show,
    on_step: Report = lambda row: None,
) -> Checkpoint:
    """Run a job to its end and register what it made; an existing checkpoint is reused.

    `on_step` is called with all figures of each step that is done. Raises TrainingFailed.
    """
    catalog = run.catalog
    base = weights_folder(bench.serving.model)
    base_id = weights_of(bench.serving.model)
    kind = "checkpoint" if job.lora is None else "adapter"
    checkpoint_id = artifact_id(kind, [cells.rollouts.sweep_id], [base_id])
    if (known := known_checkpoint(checkpoint_id, catalog)) is not None:
        return known
    work = work_folder(catalog.home.artifacts, checkpoint_id)
    trained = work / "checkpoint"
    services = await bench.services_for(cells.rollouts.suite)
    claim = job.claim(run.run_id, f"training {checkpoint_id}")
    process, ends = job.reward.process, ends_of_base(base)
    judge = None if process is None else bench.serving.served.get(process.judge or "")
    async with lease_gpus_async(catalog, claim, lambda text: show(0, text)) as gpus:
        longest = bench.serving.model.context_tokens
        batch = {"tokens": job.batch_tokens, "max_tokens": longest}
        settings = TrainerSettings.of(  # its data come as batches, so none is named
            job, base, base.resolve(), batch=batch, steps=job.steps, updates=job.updates
        )
        with PolicyTrainer(settings, work, trained, catalog, on_step, gpus) as trainer:
            served = ServedPolicy(job, services, work)
            policy = PolicyRun(job, cells, served, trainer, ends, run, judge, show)
            policy.stop_at = job.stop_at
            await policy.to_the_end()
    out = catalog.home.artifact_folder(checkpoint_id)
    made = Checkpoint(checkpoint_id, out, _card(policy, base_id, run), reused=False)
    _register(made, trained, [base_id, cells.rollouts.sweep_id], policy.done, run)
    return made


def _card(policy: PolicyRun, base_id: str, run: Run) -> dict[str, Any]:
    job, home = policy.job, run.catalog.home
    return {
        "name": job.name,
        "base": base_id,
        "objective": {"name": job.objective, **job.objective_settings},
        "settings": job.model_dump(mode="json"),
        "data": {"dropped": policy.cells.left_out},
        "steps": len(policy.done),
        "held_out": {
            str(after): held_out_score(cell_id, home) for after, cell_id in policy.evaluated.items()
        },
        "paired": paired(policy.evaluated, home),
        "machine": describe_machine(),
        "code_version": code_version(),
    }


def _register(
    made: Checkpoint, trained: Path, parents: list[str], steps: list[dict[str, Any]], run: Run
) -> None:
    """Move what was trained to its place and enter it. A job that was killed here does it again:
    its trainer writes the same weights once more."""
    if made.folder.is_dir():  # moved by a process that was killed before it had entered it
        shutil.rmtree(made.folder)
    trained.rename(made.folder)
    enter_checkpoint(made, parents, steps, run)
    shutil.rmtree(trained.parent)  # the state is several times as large as the weights
