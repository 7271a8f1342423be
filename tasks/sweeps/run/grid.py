"""Measure every part of a suite: its benchmarks and models, each on its bench.

In: a suite, its library, a run. Out: the sweep's id. One model after another, each engine started
once; with ``interleave``, and where others serve all models, level by level with all of them up.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

from tutti.tasks.runs import Run
from tutti.tasks.serving import pick_models
from tutti.tasks.sweeps.plan import Library, check_names, other_models, plan_of, task_set_of
from tutti.tasks.sweeps.run.bench import Bench, open_bench
from tutti.tasks.sweeps.run.budget import Spending
from tutti.tasks.sweeps.run.cells import BenchedPlan, run_plans
from tutti.tasks.sweeps.run.windows import enter_windows
from tutti.tasks.sweeps.spec import Suite, parts


async def run_suite(suite: Suite, models: Path, library: Library | None, run: Run) -> str:
    """Measure what is missing of a suite; `models` is the registry's file.

    Raises RegistryError and SuiteError before anything starts, and what `open_bench` raises.
    """
    every = parts(suite)
    check_names(pick_models(models, dict.fromkeys(part.model for part in every)))
    spending, sweep_id = Spending(suite.budget), ""
    for together in _rounds(suite, every, models):
        async with AsyncExitStack() as stack:
            benches = {
                model: await stack.enter_async_context(_bench(own, models, library, run))
                for model, own in _by_model(together).items()
            }
            for side_by_side in _side_by_side(together):
                plans = [await _planned(p, suite, benches[p.model], run) for p in side_by_side]
                await run_plans(plans, run, spending)
                sweep_id = plans[0].plan.sweep_id
    enter_windows(suite, sweep_id, run.catalog)
    return sweep_id


def _bench(
    of_model: Sequence[Suite], models: Path, library: Library | None, run: Run
) -> AbstractAsyncContextManager[Bench]:
    """The bench of one model, and of the other models that its parts need."""
    others = {name for part in of_model for name in other_models(part)}
    entries = pick_models(models, (of_model[0].model, *sorted(others)))
    return open_bench(entries, library, run.catalog, run.log, engines=of_model[0].execution.engines)


async def _planned(part: Suite, whole: Suite, bench: Bench, run: Run) -> BenchedPlan:
    task_set = await task_set_of(part, bench.library, run.catalog, run.log)
    return BenchedPlan(plan_of(part, bench.set_up(part, task_set), whole), bench)


def _by_model(parts: Sequence[Suite]) -> dict[str, list[Suite]]:
    models = dict.fromkeys(part.model for part in parts)
    return {model: [part for part in parts if part.model == model] for model in models}


def _rounds(suite: Suite, every: Sequence[Suite], models: Path) -> Iterator[list[Suite]]:
    """Parts whose engines run at the same time: all, or those of one model."""
    entries = pick_models(models, dict.fromkeys(part.model for part in every)).values()
    # Endpoints need nothing of this machine, so they always fit side by side.
    if suite.execution.interleave or all(entry.checkpoint is None for entry in entries):
        yield list(every)
        return
    yield from _by_model(every).values()


def _side_by_side(together: Sequence[Suite]) -> Iterator[list[Suite]]:
    """Of parts whose engines run, those whose cells alternate: all models of one benchmark."""
    for benchmark in dict.fromkeys(part.benchmark for part in together):
        yield [part for part in together if part.benchmark == benchmark]
