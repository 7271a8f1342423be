"""The flow `train-policy`: on-policy training, with held-out tasks before and after.

Run: ``tutti train grpo JOB.yaml``, or from the Prefect UI. Rollouts are a suite's attempts: the
same agents, tools, gateway and engine as in a sweep. A job that was stopped goes on.
"""

from pathlib import Path
from typing import Any

from prefect import flow

from tutti.tasks.progress import StageProgress, leave_table, stage
from tutti.tasks.project import MODELS
from tutti.tasks.runs import Run, open_run
from tutti.tasks.serving import Model, RegistryError, pick_models
from tutti.tasks.sweeps.plan import library_of, other_models, task_set_of
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
    entries, suites = _entries(job, models), (rollout_suite(job), held_out_suite(job))
    with open_run("train-policy", job.model_dump(mode="json")) as run:
        catalog, log = run.catalog, run.log
        async with library_of(suites, catalog, log) as library:
            sets = [await task_set_of(suite, library, catalog, log) for suite in suites]
            async with open_bench(entries, library, catalog, log) as bench:
                _check_frozen(bench, models)
                ups = [bench.set_up(s, made) for s, made in zip(suites, sets, strict=True)]
                cells = plan_policy(job, *ups)
                checkpoint = await learn(log, job, cells, bench, run)
        table, rows = summary_table(checkpoint.card)
        log.console.print(table)
        await leave_table(rows, "held-out", "Held-out tasks before and after, paired by task")
    return checkpoint.as_result()


def _entries(job: PolicyJob, models: Path) -> dict[str, Model]:
    """The trained model, and the suite's others, which stay as they are. Raises RegistryError."""
    base, *others = pick_models(models, (job.base, *other_models(job.suite))).items()
    name, model = base
    if model.checkpoint is None or model.engine is None:
        raise RegistryError(f"{models}: models.{name}: needs a checkpoint and an engine")
    return {name: model.model_copy(update={"record_tokens": True}), **dict(others)}


def _check_frozen(bench: Bench, models: Path) -> None:
    """See that no other model is served by the trained model's engine, whose weights change.

    Raises RegistryError.
    """
    own = bench.serving.engine
    for name, served in bench.serving.served.items():
        if name != own.name and served.engine_id == own.engine_id:
            raise RegistryError(
                f"{models}: models.{name}: is served by the engine of models.{own.name}, which is "
                "trained; give it other engine settings, such as kv_blocks"
            )


@stage(name="policy training", tags=("training",))
async def learn(
    progress: StageProgress, job: PolicyJob, cells: PolicyCells, bench: Bench, run: Run
) -> Checkpoint:
    """Roll out and train to the end, with reward and loss beside the bar."""

    def show(done: int, note: str) -> None:
        progress.show(done, job.steps, note)

    return await train_policy_job(job, cells, bench, run, show)
