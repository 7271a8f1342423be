"""The flow `demo`: the whole chain on real parts, on a laptop without a GPU.

Corpus, index, gated tasks, vLLM, gateway, a sweep over concurrency and policies, a short training
step on a task family the model has never seen, the same measurement before and after, a report.
Run: ``make demo`` or ``tutti demo``. Run again after any crash: it goes on where it was.
"""

import asyncio
import time
from pathlib import Path

from prefect import flow

from tutti.flows.demo_plan import NEW_FAMILY, TUNED, DemoParameters, closing_words, demo_suites
from tutti.storage import Catalog, open_catalog
from tutti.tasks.progress import StageLog, StageProgress
from tutti.tasks.project import MODELS
from tutti.tasks.reporting import publish_report
from tutti.tasks.runs import recorded_run
from tutti.tasks.sweeps.plan import made_tasks, make_tasks, open_library
from tutti.tasks.sweeps.run import Adapter, Bench, open_bench, run_sweep
from tutti.tasks.synthesis import read_conversations
from tutti.tasks.training import finetune, write_training_set


@flow(name="demo")
async def demo(parameters: DemoParameters = DemoParameters(), models: Path = MODELS) -> str:
    """Run the whole chain on this machine.

    Args:
        parameters: What to measure and for how long to train.
        models: The model registry file.

    Returns the load sweep's id.
    """
    log = StageLog()
    started = time.monotonic()
    load, lesson = demo_suites(parameters)
    with open_catalog() as catalog:
        with recorded_run(catalog, "demo", parameters.model_dump(mode="json")) as run_id:
            async with open_library(catalog, log) as library:
                load_id = await make_tasks(load.tasks, library, catalog, log)
                lesson_id = await make_tasks(lesson.tasks, library, catalog, log, "lesson tasks")
                load_set, lessons = (made_tasks(each, catalog) for each in (load_id, lesson_id))
                async with open_bench(load.model, models, library, catalog, log) as bench:
                    sweep = await run_sweep(load, load_set, bench, catalog, run_id, log)
                    before = await run_sweep(lesson, lessons, bench, catalog, run_id, log)
                    tuned = await _teach(lesson_id, bench, parameters, catalog, run_id, log)
                    after = await run_sweep(
                        lesson, lessons, bench, catalog, run_id, log, adapter=tuned
                    )
            sweeps = [sweep.sweep_id, before.sweep_id, after.sweep_id]
            notes = {"new family": NEW_FAMILY, "adapter": tuned.adapter_id}
            await publish_report(sweeps, "The tutti demo", catalog, log, notes)
            log.console.print(closing_words(log, time.monotonic() - started), soft_wrap=True)
    return sweep.sweep_id


async def _teach(
    lesson_set: str,
    bench: Bench,
    parameters: DemoParameters,
    catalog: Catalog,
    run_id: str,
    log: StageLog,
) -> Adapter:
    async def work(progress: StageProgress) -> Adapter:
        def show(row: dict[str, float]) -> None:
            if "step" in row:
                note = f"loss {row['loss']:.2f}, token accuracy {row['token_accuracy']:.0%}"
                progress.show(row["seconds"], parameters.train_seconds, note)

        conversations = read_conversations(catalog, lesson_set, "train")
        training_set = write_training_set(conversations, [lesson_set], catalog)
        assert bench.model.checkpoint is not None, "a bench's model has weights"
        settings = {"seconds": parameters.train_seconds, "seed": parameters.seed}
        adapter_id, folder = await asyncio.to_thread(
            finetune,
            bench.model.checkpoint,
            bench.model_id,
            training_set,
            settings,
            catalog,
            run_id,
            show,
        )
        return Adapter(TUNED, adapter_id, folder)

    return await log.run("training", work)
