"""The flow `demo`: the whole chain on real parts, on a laptop without a GPU.

Corpus, index, gated tasks, vLLM, gateway, a sweep over concurrency and policies, a short training
step, the same measurement before and after, a report. After a crash, run it again to resume.
"""

import asyncio
import time
from pathlib import Path
from typing import Any

from prefect import flow

from tutti.flows.demo_plan import (
    NEW_FAMILY,
    TUNED,
    DemoParameters,
    closing_words,
    demo_suites,
    lesson_job,
)
from tutti.tasks.platform import MODELS
from tutti.tasks.platform.progress import Run, StageProgress, open_run, stage
from tutti.tasks.reporting import publish_report
from tutti.tasks.serving.engines import require_engines
from tutti.tasks.serving.registry import checkpoint_id, pick_models, weights_folder
from tutti.tasks.sweeps.plan import (
    Adapter,
    Deployment,
    SearchService,
    TaskSet,
    make_tasks,
    plan_of,
)
from tutti.tasks.sweeps.run import run_plan
from tutti.tasks.synthesis import read_conversations
from tutti.tasks.training import fit_set, made_conversations


@flow(name="demo")
async def demo(parameters: DemoParameters = DemoParameters(), models: Path = MODELS) -> str:
    """Run the whole chain on this machine.

    Args:
       parameters: The models and tasks to measure, and the training time.
       models: The model registry file.

    Returns the load sweep's id.
    """
    started = time.monotonic()
    load, lesson = demo_suites(parameters)
    entries = pick_models(models, (load.model,))
    require_engines(entries.values())
    with open_run("demo", parameters.model_dump(mode="json")) as run:
        catalog, log = run.catalog, run.log
        async with SearchService.open(catalog, log) as library:
            load_id = await make_tasks(log, library.source(load.tasks), catalog)
            lesson_source = library.source(lesson.tasks)
            lesson_id = await make_tasks.titled(log, "lesson tasks", lesson_source, catalog)
            load_set = TaskSet.made(load_id, catalog, load)
            lessons = TaskSet.made(lesson_id, catalog, lesson)
            async with Deployment(entries, catalog, log, library) as deployment:
                sweep = plan_of(load, deployment.config(load, load_set))
                await run_plan(sweep, deployment, run)
                before = plan_of(lesson, deployment.config(lesson, lessons))
                await run_plan(before, deployment, run)
                tuned = await teach(run.log, lesson_id, deployment, parameters, run)
                after = plan_of(lesson, deployment.config(lesson, lessons, tuned))
                await run_plan(after, deployment, run, adapter=tuned)
        sweeps = [sweep.sweep_id, before.sweep_id, after.sweep_id]
        notes = {"new family": NEW_FAMILY, "adapter": tuned.adapter_id}
        await publish_report(sweeps, "The tutti demo", catalog, log, notes)
        log.console.print(closing_words(log, time.monotonic() - started), soft_wrap=True)
    return sweep.sweep_id


@stage(name="training", tags=("training",))
async def teach(
    progress: StageProgress,
    lesson_set: str,
    deployment: Deployment,
    parameters: DemoParameters,
    run: Run,
) -> Adapter:
    """Train a LoRA adapter on the lesson's training split."""

    def show(row: dict[str, Any]) -> None:
        if "step" in row:
            note = f"step {row['step']}, loss {row['loss']:.2f}"
            progress.show(row["done"] * parameters.train_seconds, parameters.train_seconds, note)

    conversations = read_conversations(run.catalog, lesson_set, "train")
    training_set = made_conversations(conversations, [lesson_set], run.catalog)
    model = deployment.model
    base = (weights_folder(model), checkpoint_id(model))
    job = lesson_job(parameters, training_set.rows)
    made = await asyncio.to_thread(fit_set, job, base, training_set, run, show)
    return Adapter(TUNED, made.checkpoint_id, made.folder)
