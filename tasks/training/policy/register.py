"""A policy job from its cells to a registered checkpoint with its held-out scores."""

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from tutti.storage import Home, artifact_id, query
from tutti.tasks.gpus import lease_gpus_async
from tutti.tasks.runs import Run, code_version, describe_machine
from tutti.tasks.scoring.statistics import wilson
from tutti.tasks.sweeps.run import Bench
from tutti.tasks.training.checkpoints import Checkpoint, ends_of_base
from tutti.tasks.training.policy.cells import PolicyCells
from tutti.tasks.training.policy.job import PolicyJob
from tutti.tasks.training.policy.loop import PolicyRun, Show, work_folder
from tutti.tasks.training.policy.served import ServedPolicy
from tutti.tasks.training.policy.trainer import PolicyTrainer, settings_for
from tutti.tasks.training.stage import Report, record_steps


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
    base = bench.serving.model.checkpoint
    assert base is not None, "the flow has looked"
    base_id = cells.rollouts.set_up.model_id
    kind = "checkpoint" if job.lora is None else "adapter"
    checkpoint_id = artifact_id(kind, [cells.rollouts.sweep_id], [base_id])
    out = catalog.home.artifact_folder(checkpoint_id)
    known = catalog.artifact(checkpoint_id)
    if known is not None and known["path"].is_dir():
        return Checkpoint(checkpoint_id, out, known["detail"], reused=True)
    fields: dict[str, Any] = {
        "objective": job.objective,
        "objective_settings": job.objective_settings,
        "optimizer": job.optimizer.model_dump(),
        "lora": None if job.lora is None else job.lora.model_dump(),
        "batch": {"tokens": job.batch_tokens, "max_tokens": bench.serving.model.context_tokens},
        "steps": job.steps,
        "dtype": job.dtype,
        "seed": job.seed,
    }
    work = work_folder(catalog.home.artifacts, checkpoint_id)
    trained = work / "checkpoint"
    services = await bench.services_for(cells.rollouts.suite)
    claim = job.claim(run.run_id, f"training {checkpoint_id}")
    process, ends = job.reward.process, ends_of_base(base)
    judge = None if process is None else bench.serving.served.get(process.judge or "")
    async with lease_gpus_async(catalog, claim, lambda text: show(0, text)) as gpus:
        settings = settings_for(base, fields)
        with PolicyTrainer(settings, work, trained, catalog, on_step, gpus) as trainer:
            served = ServedPolicy(job, services, work)
            policy = PolicyRun(job, cells, served, trainer, ends, run, judge, show)
            policy.stop_at = job.stop_at
            await policy.to_the_end()
    trained.rename(out)
    record_steps(catalog, run.run_id, checkpoint_id, policy.done)
    card = {
        "name": job.name,
        "base": base_id,
        "objective": {"name": job.objective, **job.objective_settings},
        "settings": job.model_dump(mode="json"),
        "steps": len(policy.done),
        "held_out": {
            str(after): _score(cell_id, catalog.home) for after, cell_id in policy.evaluated.items()
        },
        "paired": _paired(policy, catalog.home),
        "machine": describe_machine(),
        "code_version": code_version(),
    }
    parents = [base_id, cells.rollouts.sweep_id]
    catalog.enter_artifact(checkpoint_id, card, parents, out)
    return Checkpoint(checkpoint_id, out, card, reused=False)


def summary_table(card: Mapping[str, Any]) -> tuple[Table, list[dict[str, Any]]]:
    """Held-out accuracy after each evaluation, and the difference of the last to the first."""
    rows = [
        {
            "after step": after,
            "n": each["n"],
            "accuracy": f"{each['accuracy']:.1%}",
            "95 %": "{:.1%} to {:.1%}".format(*each["wilson_95"]),
        }
        for after, each in card["held_out"].items()
    ]
    table = Table(box=SIMPLE_HEAD, title="held-out tasks", title_justify="left")
    for name in ("after step", "n", "accuracy", "95 %"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    if (paired := card["paired"]) is not None:
        points, low, high = (100 * paired[name] for name in ("difference", "ci_low", "ci_high"))
        table.caption = f"{points:+.1f} points [{low:+.1f}, {high:+.1f}], paired by task"
    return table, rows


def _score(cell_id: str, home: Home) -> dict[str, Any]:
    (row,) = query(
        "select count(*) as n, count(*) filter (where correct) as correct from attempts "
        "where cell_id = $cell and status in ('ok', 'limit', 'model_error')",
        home,
        {"cell": cell_id},
    )
    n, correct = row["n"], row["correct"]
    return {
        "n": n,
        "accuracy": correct / max(1, n),
        "wilson_95": list(wilson(correct, n) or (0, 1)),
    }


def _paired(policy: PolicyRun, home: Home) -> dict[str, Any] | None:
    """The last evaluation against the first, paired by task; None where there is only one."""
    cells = [policy.evaluated[after] for after in sorted(policy.evaluated)]
    if len(cells) < 2 or cells[0] == cells[-1]:
        return None
    (row,) = query(
        "select * from compare($first, $last)", home, {"first": cells[0], "last": cells[-1]}
    )
    return dict(row)
