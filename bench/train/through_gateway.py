"""Rollouts a second through gateway and store, and straight at the engine: in turn, as ratios.

``python -m bench.train.through_gateway [--pairs N]``. Both sides are one agent loop on the same
engine, 32 tasks with 8 attempts each and 32 at once. The first is what a training does: the calls
pass the gateway, ids and log probabilities are recorded, attempts committed. The other asks vLLM
itself, for ids and log probabilities too, and keeps nothing.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.train.run import ENGINE, ENTRY, JOB
from tutti.storage import Home, held, open_catalog
from tutti.tasks.platform.progress import StageLog
from tutti.tasks.serving.registry import Model
from tutti.tasks.sweeps.plan import Cell, Deployment, Plan, SearchService, enter_plan, task_set_of
from tutti.tasks.sweeps.run import Attempts, BudgetTracker, Execution, run_cell
from tutti.tasks.training.policy import (
    PolicyJob,
    as_sampled,
    held_out_suite,
    plan_policy,
    rollout_suite,
)

TOKENS = {"logprobs": True, "return_token_ids": True}
"""What a trainer needs of each call; on the other side the gateway asks for it."""


async def straight(plan: Plan, cell: Cell, deployment: Deployment) -> None:
    """All attempts of a cell at the engine itself."""
    model = plan.config.model
    assert model is not None, "a registry's entry"
    asking = model.model_copy(update={"request": {**model.request, **TOKENS}})
    plan = replace(plan, config=replace(plan.config, model=asking))
    await asyncio.to_thread(deployment.engine.reset)
    waiting = iter(enumerate(cell.samples))
    url = deployment.engine.address.url
    async with Attempts(plan, cell, url, deployment.search_url) as attempts:

        async def session(left: Iterator[tuple[int, Any]]) -> None:
            for number, sample in left:
                done = await attempts.make(sample, f"straight-{cell.repeat}-{number}")
                assert done.status == "ok" or done.status == "model_error", done.status

        await asyncio.gather(*(session(waiting) for _ in range(cell.concurrency)))


async def measure(pairs: int, home: Home) -> list[tuple[float, float]]:
    """(through the gateway, straight) of each pair, in attempts a second."""
    job = PolicyJob.model_validate(JOB | {"steps": 2 * pairs + 2})
    suites, log = (rollout_suite(job), held_out_suite(job)), StageLog()
    model = as_sampled(Model.model_validate(ENTRY | {"engine": ENGINE}), job)
    async with AsyncExitStack() as stack:
        catalog = stack.enter_context(open_catalog(home))
        library = await stack.enter_async_context(SearchService.of_suites(suites, catalog, log))
        sets = [await task_set_of(suite, library, catalog, log) for suite in suites]
        served = Deployment({job.base: model}, catalog, log, library)
        deployment = await stack.enter_async_context(served)
        ups = [deployment.config(s, t) for s, t in zip(suites, sets, strict=True)]
        plan = plan_policy(job, ups[0], ups[1]).rollouts
        await deployment.start()
        enter_plan(plan, catalog)
        lease = stack.enter_context(held(catalog, plan.sweep_id))
        spending = BudgetTracker(plan.suite.budget)
        execution = Execution(plan, deployment, catalog, "run:bench", lease, spending)
        found = [await _pair(execution, nth) for nth in range(pairs + 1)]
    return found[1:]  # the first warms both


async def _pair(execution: Execution, number: int) -> tuple[float, float]:
    first, second = execution.plan.cells[2 * number : 2 * number + 2]
    began = time.monotonic()
    await run_cell(execution, first)
    middle = time.monotonic()
    await straight(execution.plan, second, execution.deployment)
    ended = time.monotonic()
    return len(first.samples) / (middle - began), len(second.samples) / (ended - middle)


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description="Rollouts a second with and without the gateway.")
    parser.add_argument("--pairs", type=int, default=6, help="of measurements")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        pairs = asyncio.run(measure(given.pairs, Home(Path(folder))))
    ratios = sorted(a / b for a, b in pairs)
    print(json.dumps({"gateway": [a for a, _ in pairs], "straight": [b for _, b in pairs]}))
    print(f"ratio: median {statistics.median(ratios):.3f}, {ratios[0]:.3f} to {ratios[-1]:.3f}")


if __name__ == "__main__":
    main()
