"""The flow `train-policy`: on-policy training, with held-out tasks before and after.

Run: ``tutti train grpo JOB.yaml``, or from the Prefect UI. Rollouts are a suite's attempts: the
same agents, tools, gateway and engine as in a sweep. A job that was stopped goes on.
"""

from pathlib import Path
from typing import Any

from prefect import flow

from tutti.tasks.gpus import require_gpus
from tutti.tasks.progress import StageProgress, leave_table, stage
from tutti.tasks.project import MODELS
from tutti.tasks.runs import Run, open_run
from tutti.tasks.serving import RegistryError, pick_model
from tutti.tasks.sweeps.plan import library_of, task_set_of
from tutti.tasks.sweeps.run import Bench, open_bench
from tutti.tasks.training import Checkpoint
from tutti.tasks.training.policy import (
    PolicyCells,
    PolicyJob,
    held_out_suite,
    plan_policy,
    rollout_suite,
    summary_table,
    train_policy_job,
)


@flow(name="train-policy")
async def train_policy(job: PolicyJob, models: Path = MODELS) -> dict[str, Any]:
    """Train a policy on its own attempts.

    Args:
        job: Base, rollouts, reward, objective and held-out tasks.
        models: The model registry file; `base` is one of its entries, with checkpoint and engine.

    Returns the checkpoint's id, folder and card, with the held-out scores before and after.
    """
    model = pick_model(models, job.base)
    if model.checkpoint is None or model.engine is None:
        raise RegistryError(f"{models}: models.{job.base}: needs a checkpoint and an engine")
    entries = {job.base: model.model_copy(update={"record_tokens": True})}
    suites = (rollout_suite(job), held_out_suite(job))
    with open_run("train-policy", job.model_dump(mode="json")) as run:
        catalog, log = run.catalog, run.log
        require_gpus(job.claim(run.run_id, job.name), catalog.home)
        async with library_of(suites, catalog, log) as library:
            sets = [await task_set_of(suite, library, catalog, log) for suite in suites]
            async with open_bench(entries, library, catalog, log) as bench:
                ups = [bench.set_up(s, made) for s, made in zip(suites, sets, strict=True)]
                cells = plan_policy(job, *ups)
                checkpoint = await learn(log, job, cells, bench, run)
        table, rows = summary_table(checkpoint.card)
        log.console.print(table)
        await leave_table(rows, "held-out", "Held-out tasks before and after, paired by task")
    return checkpoint.as_result()


@stage(name="policy training", tags=("training",))
async def learn(
    progress: StageProgress, job: PolicyJob, cells: PolicyCells, bench: Bench, run: Run
) -> Checkpoint:
    """Roll out and train to the end, with reward and loss beside the bar."""

    def show(done: int, note: str) -> None:
        progress.show(done, job.steps, note)

    return await train_policy_job(job, cells, bench, run, show)
