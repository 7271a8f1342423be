"""The flow `train-policy`: on-policy training, with held-out tasks before and after.

Run: ``tutti train grpo JOB.yaml``, or from the Prefect UI. Rollouts are a suite's attempts: the
same agents, tools, gateway and engine as in a sweep. A stopped job resumes.
"""

from pathlib import Path
from typing import Any

from prefect import flow

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
from tutti.tasks.serving import RegistryError
from tutti.tasks.serving.registry import Model, checkpoint_id, pick_models
from tutti.tasks.sweeps.plan import Deployment, SearchService, task_set_of
from tutti.tasks.sweeps.spec import Suite
from tutti.tasks.training import Checkpoint, JobError, OptimizerSettings
from tutti.tasks.training.policy import (
    PolicyCells,
    PolicyJob,
    adapter_of,
    as_sampled,
    held_out_suite,
    plan_policy,
    rollout_suite,
    summary_table,
    train_policy_job,
)

POCKET = PolicyJob(
    name="pocket-grpo",
    base="pocket",
    suite=Suite.model_validate(
        {
            "tasks": {
                "families": ["last_parameter"],
                "train_per_family": 600,
                "test_per_family": 330,
            },
            "data": {"split": "train"},
            "policies": ["passthrough"],
            "concurrency": [32],
            "sampling": {"temperature": 1.0},
        }
    ),
    objective_settings={"high": 0.28},
    optimizer=OptimizerSettings(
        learning_rate=2e-4, betas=(0.9, 0.99), schedule="constant", warmup_share=0.0
    ),
    steps=40,
)
"""The job of deployments/training/pocket-grpo.yaml."""


@flow(name="train-policy")
async def train_policy(job: PolicyJob = POCKET, models: Path = MODELS) -> dict[str, Any]:
    """Train a policy on its own attempts.

    Args:
        job: Base, rollouts, reward, objective and held-out tasks.
        models: The model registry file; `base` is one of its entries, with checkpoint and engine.

    Returns the checkpoint's id, folder and card, with the held-out scores before and after.
    """
    entries, suites = _entries(job, models), (rollout_suite(job), held_out_suite(job))
    with open_run("train-policy", job.model_dump(mode="json")) as run:
        catalog, log = run.catalog, run.log
        require_gpus(job.claim(run.run_id, job.name), catalog.home)
        async with SearchService.of_suites(suites, catalog, log) as library:
            sets = [await task_set_of(suite, library, catalog, log) for suite in suites]
            served = Deployment(entries, catalog, log, library, trained_by=job.trained_by)
            async with served as deployment:
                adapter = adapter_of(job, checkpoint_id(deployment.model))
                rolled, held = (
                    deployment.config(s, t, adapter) for s, t in zip(suites, sets, strict=True)
                )
                cells = plan_policy(job, rolled, held, catalog.home)
                checkpoint = await learn(log, job, cells, deployment, run)
        table, rows = summary_table(checkpoint.card)
        log.console.print(table)
        await leave_table(rows, "held-out", "Held-out tasks before and after, paired by task")
        await publish_if_recorded(checkpoint.checkpoint_id, catalog, log)
    return checkpoint.as_result()


def _entries(job: PolicyJob, models: Path) -> dict[str, Model]:
    """Return the base's entry, and those of its suite's other models, which no training changes."""
    if job.backend_settings:
        raise JobError(
            "backend_settings: are for another trainer; name it: --backend, --write-only"
        )
    found = pick_models(models, (job.base, *job.others))
    base = found[job.base]
    if base.checkpoint is None or base.engine is None:
        raise RegistryError(f"{models}: models.{job.base}: needs a checkpoint and an engine")
    return {job.base: as_sampled(base, job), **{name: found[name] for name in job.others}}


@stage(name="policy training", tags=("training",))
async def learn(
    progress: StageProgress, job: PolicyJob, cells: PolicyCells, deployment: Deployment, run: Run
) -> Checkpoint:
    """Roll out and train to the end, with reward and loss beside the bar."""
    for reason, count in cells.left_out.items():
        progress.console.print(f"tasks left out: {count:,} x {reason}")

    def show(done: int, note: str) -> None:
        progress.show(done, job.steps, note)

    steps: list[dict[str, Any]] = []
    async with live_artifacts(progress, "training-steps", lambda: live_view(steps)):
        return await train_policy_job(job, cells, deployment, run, show, steps.append)
