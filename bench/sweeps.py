"""The overhead of the sweep engine: ``make bench-sweeps`` (about five minutes).

Against an endpoint that answers after 200 ms, with gateway, store and scoring on: the overhead of a
cell, the time to plan a sweep of 1,000 cells, and the time in which a sweep of 100,000 attempts
finds its missing ones. Commands are timed from process start to end.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from bench.harness.run import endpoint
from bench.harness.wire import DELAY_S, QUESTION
from bench.report import Report, Target, seconds_of
from tutti import storage
from tutti.storage import Catalog, artifact_id, commit, held
from tutti.storage import catalog as cat
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.sweeps.plan.enter import enter_plan
from tutti.tasks.sweeps.plan.estimate import PlanEstimate
from tutti.tasks.sweeps.plan.missing import finished_samples, missing_cells
from tutti.tasks.sweeps.plan.plan import Cell, Plan, Sample, plan_of
from tutti.tasks.sweeps.plan.task_set import TaskSet
from tutti.tasks.sweeps.spec.suite import read_suite

COMMAND_S = 600.0
POLICIES = ["passthrough", "cap", "adaptive", "thunderagent", "continuum"]
MODELS = """
models:
  mock: {{provider: vllm, endpoint: "{url}/v1", served_name: mock, context_tokens: 32768}}
"""
# From one cell's start to the next one's, without the seconds in which its attempts ran.
OVERHEAD = """
with ran as (
    select cell_id, any_value(c.started_at) as began, count(*) as attempts,
           epoch(max(a.ended_at)) - epoch(min(a.started_at)) as samples_s
    from cells c join attempts a using (cell_id) group by all
)
select epoch(lead(began) over (order by began)) - epoch(began) - samples_s as s, samples_s, attempts
from ran qualify s is not null
"""


@dataclass(frozen=True)
class Sizes:
    """The amount of work measured."""

    cells: int = 20
    """Cells whose overhead is measured."""
    levels: int = 40
    """Concurrency levels of the planned sweep: times five policies and five repeats."""
    planned_tasks: int = 100
    done_levels: int = 20
    """Concurrency levels of the resumed sweep: times five policies."""
    done_tasks: int = 1000


SMALL = Sizes(cells=4, levels=2, planned_tasks=10, done_levels=2, done_tasks=20)


class SweepBench:
    """A separate store, a registry with the slow endpoint, items, and suites over them."""

    def __init__(self, folder: Path, url: str, items: int) -> None:
        self.folder, self.home = folder, storage.Home(folder / "home")
        self.models = folder / "models.yaml"
        self.models.write_text(MODELS.format(url=url))
        rows = [{"question": f"{QUESTION} ({n})", "answer": "So.\n#### 7"} for n in range(items)]
        self.items = folder / "items.jsonl"
        self.items.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def suite(self, name: str, limit: int, **axes: Any) -> Path:
        """A suite file over the first `limit` items."""
        content = {"name": name, "benchmark": "gsm8k", "limit": limit}
        content |= {"data": {"source": str(self.items)}}
        file = self.folder / f"{name}.yaml"
        file.write_text(json.dumps(content | {"model": "mock"} | axes))  # JSON is YAML
        return file

    def type(self, *arguments: str) -> None:
        """Run ``tutti ARGUMENTS`` to its end. Raises CalledProcessError."""
        environment = os.environ | {"TUTTI_HOME": str(self.home.root), "PYTHONPATH": str(PROJECT)}
        command = [sys.executable, "-m", "tutti.cli.main", *arguments, "--models", str(self.models)]
        subprocess.run(
            command, env=environment, check=True, timeout=COMMAND_S, stdout=-3, stderr=-3
        )


@contextlib.contextmanager
def workshop(url: str, items: int) -> Iterator[SweepBench]:
    """An empty one, for the block's duration."""
    with tempfile.TemporaryDirectory(prefix="tutti-sweeps-") as folder:
        yield SweepBench(Path(folder), url, items)


def overheads(url: str, sizes: Sizes, *flags: str) -> list[float]:
    """Overhead in seconds of each cell of one `tutti sweep run`."""
    levels = list(range(8, 9 + sizes.cells))
    with workshop(url, items=8) as shop:
        suite = shop.suite("cells", 8, policies=["passthrough"], concurrency=levels)
        shop.type("sweep", "run", str(suite), *flags)
        rows = storage.query(OVERHEAD, shop.home)
    assert len(rows) == sizes.cells and all(row["attempts"] == 8 for row in rows), rows
    assert all(row["samples_s"] >= DELAY_S for row in rows), "answers take their time"
    return [row["s"] for row in rows]


def planning(url: str, sizes: Sizes) -> dict[str, float]:
    """Seconds to plan and enter a sweep's cells, the first time and again, and by the command."""
    with workshop(url, sizes.planned_tasks) as shop:
        levels = [*range(1, 1 + sizes.levels)]
        axes = {"policies": POLICIES, "concurrency": levels, "repetition": {"repeats": 5}}
        suite = shop.suite("planned", sizes.planned_tasks, **axes)
        found: dict[str, float] = {}
        found["plan_verb_1000_cells_s"] = seconds_of(
            lambda: shop.type("sweep", "plan", str(suite), "--json")
        )
        plan, tasks = planned(shop, suite)
        assert len(plan.cells) == 25 * sizes.levels
        with storage.open_catalog(shop.home) as catalog:
            with _clocks("plan_1000_cells", found):
                enter_plan(again(plan, tasks), catalog)
            with _clocks("plan_known_1000_cells", found):
                enter_plan(again(plan, tasks), catalog)
        found["plan_verb_known_1000_cells_s"] = seconds_of(
            lambda: shop.type("sweep", "plan", str(suite), "--json")
        )
    return found


def resuming(url: str, sizes: Sizes) -> dict[str, float]:
    """Seconds until a sweep with one missing sample has found it, and until it runs."""
    with workshop(url, sizes.done_tasks) as shop:
        levels = [*range(8, 8 + sizes.done_levels)]
        suite = shop.suite("done", sizes.done_tasks, policies=POLICIES, concurrency=levels)
        plan, tasks = planned(shop, suite)
        last = plan.cells[-1].samples[-1]
        found: dict[str, float] = {}
        with storage.open_catalog(shop.home) as catalog:
            enter_plan(plan, catalog)
            for cell in plan.cells:
                finish(plan, cell, [each for each in cell.samples if each is not last], catalog)
            with _clocks("resume_100k_decides", found):
                missing = decide(plan, tasks, catalog)
        assert [each.sample_id for each in missing] == [last.sample_id], (
            f"{len(missing)} are missing"
        )
        found["resume_verb_100k_plan_s"] = seconds_of(
            lambda: shop.type("sweep", "plan", str(suite), "--json")
        )
        at = datetime.now(UTC)
        shop.type("sweep", "run", str(suite))
        wanted = {"of": last.sample_id}
        (row,) = storage.query("from attempts where sample_id = $of", shop.home, wanted)
        found["resume_verb_100k_runs_s"] = (row["started_at"] - at).total_seconds()
    return found


@contextlib.contextmanager
def _clocks(name: str, found: dict[str, float]) -> Iterator[None]:
    """Record the wall-clock seconds of the block, and this process's CPU seconds, which other work
    on the machine affects less."""
    began, spent = time.perf_counter(), time.process_time()
    yield
    found[f"{name}_s"] = time.perf_counter() - began
    found[f"{name}_cpu_s"] = time.process_time() - spent


def planned(shop: SweepBench, file: Path) -> tuple[Plan, TaskSet]:
    """The plan that the verbs make of a suite file, and the tasks it is made of."""
    suite = read_suite(file)
    with _environment(TUTTI_HOME=str(shop.home.root)):
        (found,) = PlanEstimate.of(suite, shop.models)
    return found.plan, TaskSet.read(suite)


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    before: Mapping[str, str] = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            os.environ.pop(name)
        os.environ.update({name: before[name] for name in values if name in before})


def again(plan: Plan, tasks: TaskSet) -> Plan:
    """Plan again from scratch: every id is computed."""
    task_set = replace(tasks, task_set_id=plan.config.task_set.task_set_id)
    made = plan_of(plan.suite, replace(plan.config, task_set=task_set))
    assert made.sweep_id == plan.sweep_id, "the same inputs give the same plan"
    return made


def decide(plan: Plan, tasks: TaskSet, catalog: Catalog) -> list[Sample]:
    """The steps of a run before its first attempt: plan, enter, lease, and query; returns what is
    missing."""
    plan = again(plan, tasks)
    enter_plan(plan, catalog)
    with held(catalog, plan.sweep_id):
        missing = []
        for cell in missing_cells(plan, catalog):
            finished = finished_samples(catalog, cell)
            missing += [each for each in cell.samples if each.sample_id not in finished]
    return missing


def finish(plan: Plan, cell: Cell, samples: Sequence[Sample], catalog: Catalog) -> None:
    """Enter an attempt that is done, and scored, for each of `samples`."""
    at = cat.now()
    states = [_state(cell, sample, at) for sample in samples]
    point: dict[str, Any] = {
        "sweep_id": plan.sweep_id,
        "cell_id": cell.cell_id,
        "policy": cell.policy,
    }
    point |= {
        "concurrency": cell.concurrency,
        "repeat": cell.repeat,
        "model": plan.config.model_name,
    }
    point |= {"benchmark": plan.suite.benchmark_name, "engine_id": plan.config.engine_id}
    attempts = [
        point
        | {name: value for name, value in state.items() if name != "state"}
        | {"ended_at": at, "answer": "7", "score": 1.0, "correct": True, "calls": 1, "steps": 1}
        for state in states
    ]
    scorer = plan.config.task_set.benchmark.scoring
    named = {"scorer": scorer.name, "scorer_version": scorer.version, "value": 1.0}
    named |= {"sweep_id": plan.sweep_id, "cell_id": cell.cell_id, "correct": True, "scored_at": at}
    scores = [named | {"attempt_id": state["attempt_id"]} for state in states]
    whole = len(samples) == len(cell.samples)

    def complete(connection: sa.Connection) -> None:
        connection.execute(sa.insert(cat.attempt_states), states)
        status = "finished" if whole else "incomplete"
        of = sa.update(cat.cells).where(cat.cells.c.cell_id == cell.cell_id)
        connection.execute(of.values(status=status, started_at=at, ended_at=at))

    commit(catalog, {"attempts": attempts, "scores": scores}, complete)


def _state(cell: Cell, sample: Sample, at: datetime) -> dict[str, Any]:
    return {
        "attempt_id": artifact_id("attempt", [sample.sample_id, 1]),
        "cell_id": cell.cell_id,
        "sample_id": sample.sample_id,
        "task_id": sample.task.task_id,
        "trial": sample.trial,
        "attempt": 1,
        "run_id": "run:bench",
        "state": "done",
        "status": "ok",
        "started_at": at,
    }


TARGETS = {
    "cell_overhead_s": Target(2.0),
    "cell_overhead_prefect_s": Target(2.0),
    "plan_1000_cells_s": Target(3.0),
    "resume_100k_decides_s": Target(5.0),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="to see that it works")
    given = parser.parse_args(arguments)
    sizes = SMALL if given.small else Sizes()
    report, found = Report("sweeps", given.repeats), dict[str, list[float]]()
    with endpoint() as (url, _):
        for _ in range(given.repeats):
            measured = {"cell_overhead_s": overheads(url, sizes)}
            measured["cell_overhead_prefect_s"] = overheads(url, sizes, "--prefect")
            once = planning(url, sizes) | resuming(url, sizes)
            for name, values in measured.items():
                found.setdefault(name, []).extend(values)
            for name, value in once.items():
                found.setdefault(name, []).append(value)
    for name, values in found.items():
        report.figure(name, values, TARGETS.get(name))
    report.note("figures with `verb` are what a user types, from the start of its process")
    report.show()


if __name__ == "__main__":
    main()
