"""The flow `train`: the pocket model from scratch, then measured on held-out documents.

Run: ``tutti train pocket``. Trains on the oracle's gated trajectories (about half an hour on two
cores), serves the result with vLLM, solves held-out tasks through the real loop, writes the card.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

from prefect import flow
from pydantic import Field

from tutti.storage import Catalog, connect
from tutti.tasks.platform import MODELS, TRAINED_POCKET, Strict
from tutti.tasks.platform.progress import (
    StageLog,
    StageProgress,
    code_version,
    describe_machine,
    leave_table,
    open_run,
    stage,
)
from tutti.tasks.reporting import FamilyScore, family_scores, family_table
from tutti.tasks.scoring.statistics import wilson
from tutti.tasks.sweeps.plan import Deployment, SearchService, TaskSet, make_tasks, plan_of
from tutti.tasks.sweeps.run import run_plan
from tutti.tasks.sweeps.spec import Suite
from tutti.tasks.training.pocket import POCKET_TASKS, served_from, train_pocket


class PocketParameters(Strict):
    """The training parameters of the pocket model."""

    steps: int = Field(2600, ge=1, description="training steps of about 8,000 tokens")
    seed: int = Field(0, description="decides weights and order of the data")
    evaluate_only: bool = Field(False, description="keep the checkpoint, only measure it again")


@flow(name="train")
async def train(
    parameters: PocketParameters = PocketParameters(),
    out: Path = TRAINED_POCKET,
    models: Path = MODELS,
) -> dict[str, Any]:
    """Train and measure the pocket model.

    Args:
       parameters: Length and seed of the training.
       out: Folder of the checkpoint.
       models: The model registry file; its `pocket` defines how the checkpoint is served.

    Returns the card.
    """
    entries = {"pocket": served_from(out, models)}
    suite = Suite(
        name="pocket-card", tasks=POCKET_TASKS, policies=("passthrough",), concurrency=(8,)
    )
    with open_run("train", parameters.model_dump(mode="json")) as run:
        catalog, log = run.catalog, run.log
        async with SearchService.open(catalog, log) as library:
            task_set = await make_tasks(log, library.source(POCKET_TASKS), catalog)
            if parameters.evaluate_only:
                card: dict[str, Any] = json.loads((out / "card.json").read_text())
            else:
                card = await train_from_scratch(log, task_set, out, parameters, catalog)
            async with Deployment(entries, catalog, log, library) as deployment:
                tasks = TaskSet.made(task_set, catalog, suite)
                plan = plan_of(suite, deployment.config(suite, tasks))
                await run_plan(plan, deployment, run)
        card = card | await _measured(plan.sweep_id, catalog, log)
        (out / "card.json").write_text(json.dumps(card, indent=1) + "\n")
    return card


@stage(name="training", tags=("training",))
async def train_from_scratch(
    progress: StageProgress,
    task_set: str,
    out: Path,
    parameters: PocketParameters,
    catalog: Catalog,
) -> dict[str, Any]:
    """Train on the task set's training split; returns the card without its measurements."""

    def show(row: dict[str, Any]) -> None:
        if "step" in row:
            note = f"loss {row['loss']:.2f}, token accuracy {row['token_accuracy']:.0%}"
            progress.show(row["step"], parameters.steps, note)

    settings = {"steps": parameters.steps, "seed": parameters.seed}
    return await asyncio.to_thread(train_pocket, task_set, out, settings, catalog, show)


async def _measured(sweep_id: str, catalog: Catalog, log: StageLog) -> dict[str, Any]:
    connection = connect(catalog.home, macros=("counted",))
    try:
        scores = family_scores(connection, sweep_id)
    finally:
        connection.close()
    log.console.print(family_table(scores))
    rows = [{"family": s.family, **_entry(s)} for s in scores]
    await leave_table(rows, "families", "Accuracy on held-out documents, with 95 % intervals")
    n, correct = sum(s.n for s in scores), sum(s.correct for s in scores)
    interval = wilson(correct, n)
    assert interval is not None, "a suite has at least one task"
    overall = {"n": n, "accuracy": correct / n, "wilson_95": list(interval)}
    return {
        "held_out": {"overall": overall, "families": {s.family: _entry(s) for s in scores}},
        "machine": describe_machine(),
        "code_version": code_version(),
    }


def _entry(score: FamilyScore) -> dict[str, Any]:
    interval = [score.low, score.high]
    return {"n": score.n, "accuracy": score.accuracy, "wilson_95": interval}
