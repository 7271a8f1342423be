"""The flow `demo`: the whole chain on real parts, on a laptop without a GPU.

Corpus, index, gated tasks, vLLM, gateway, a sweep over concurrency and policies, a short training
step on a task family the model has never seen, the same measurement before and after, a report.
Run: ``make demo`` or ``tutti demo``. Run again after any crash: it goes on where it was.
"""

import asyncio
import time
from pathlib import Path

from prefect import flow
from pydantic import BaseModel, ConfigDict, Field

from flows.bench import MODELS, Adapter, Bench, make_tasks, open_bench, open_library, run_sweep
from flows.publish import publish_report
from flows.stages import StageLog, StageProgress
from storage import Catalog, open_catalog
from tasks.runs import recorded_run
from tasks.sweeps.suite import Suite
from tasks.synthesis.generate import POCKET_FAMILIES, TaskRequest, read_conversations
from tasks.training.stage import finetune, write_training_set

NEW_FAMILY = "last_parameter"
TUNED = "pocket-tuned"
CAP = 6  # programs at once under `cap`: about what the pocket engine's KV cache holds


class DemoParameters(BaseModel):
    """What the demo measures and for how long it trains."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    concurrency: tuple[int, ...] = Field((2, 8, 16), description="sessions at once, a cell each")
    tasks_per_family: int = Field(40, ge=1, description="test tasks of each family in the sweep")
    lesson_train: int = Field(300, ge=8, description="training candidates of each lesson family")
    lesson_test: int = Field(24, ge=1, description="test candidates of each lesson family")
    train_seconds: float = Field(75.0, gt=0, description="length of the training step")
    seed: int = Field(0, description="decides which documents are asked about")


SMALL = DemoParameters(
    concurrency=(4,), tasks_per_family=2, lesson_train=24, lesson_test=3, train_seconds=5.0
)
"""The chain in about two minutes, most of which is the engine's start."""


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
    load, lesson = _suites(parameters)
    with open_catalog() as catalog:
        with recorded_run(catalog, "demo", parameters.model_dump(mode="json")) as run_id:
            async with open_library(catalog, log) as library:
                load_set = await make_tasks(load.tasks, library, catalog, log)
                lesson_set = await make_tasks(lesson.tasks, library, catalog, log, "lesson tasks")
                async with open_bench(load.model, models, library, catalog, log) as bench:
                    sweep = await run_sweep(load, load_set, bench, catalog, run_id, log)
                    before = await run_sweep(lesson, lesson_set, bench, catalog, run_id, log)
                    tuned = await _teach(lesson_set, bench, parameters, catalog, run_id, log)
                    after = await run_sweep(
                        lesson, lesson_set, bench, catalog, run_id, log, adapter=tuned
                    )
            sweeps = [sweep.sweep_id, before.sweep_id, after.sweep_id]
            notes = {"new family": NEW_FAMILY, "adapter": tuned.adapter_id}
            await publish_report(sweeps, "The tutti demo", catalog, log, notes)
            log.console.print(_closing(log, time.monotonic() - started))
    return sweep.sweep_id


def _suites(parameters: DemoParameters) -> tuple[Suite, Suite]:
    load_tasks = TaskRequest(
        families=POCKET_FAMILIES,
        train_per_family=0,
        test_per_family=parameters.tasks_per_family,
        seed=parameters.seed,
    )
    lesson_tasks = TaskRequest(
        families=(NEW_FAMILY, "parameter", "module"),
        train_per_family=parameters.lesson_train,
        test_per_family=parameters.lesson_test,
        seed=parameters.seed + 1,
    )
    load = Suite(name="demo", tasks=load_tasks, concurrency=parameters.concurrency, cap=CAP)
    lesson = Suite(
        name="lesson", tasks=lesson_tasks, concurrency=(8,), policies=("cap",), max_tokens=64
    )
    return load, lesson


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


def _closing(log: StageLog, seconds: float) -> str:
    times = ", ".join(f"{name} {taken:.0f}" for name, taken in log.seconds.items())
    return f"""
[bold]{seconds:.0f} s in all[/] (seconds: {times})

Ask your own questions; three worth trying:

  tutti sql "select policy, concurrency, count(*) n, avg(correct::int) acc from attempts \
where status='ok' group by all order by all"

  tutti sql "select c.policy, c.concurrency, w.steps_per_min, w.step_latency_p95, \
w.server_hit_ratio from cells c, steady_window(c.cell_id) s, \
window_summary(c.cell_id, s.start_s, s.end_s) w order by all"

  tutti sql "select m.role, m.content, m.tool_calls from attempts a join messages m \
using (attempt_id) where not a.correct order by a.attempt_id, m.position limit 12"
"""
