"""Turn a suite into cells with content-hash ids, and say what of each is already there."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import sqlalchemy as sa

from storage import Catalog, artifact_id
from storage import catalog as cat
from tasks.serving import Model
from tasks.sweeps.problem import Problem
from tasks.sweeps.roles import NO_ROLES, Roles, check_agent
from tasks.sweeps.suite import Suite

NAMED = ("working_s", "command_s", "python")  # part of a cell where they are not the default
LOOP_VERSION = "4"  # of what decides an attempt's outcome besides the suite: loop, prompt, tools


@dataclass(frozen=True)
class Sample:
    """One task at one trial within a cell."""

    sample_id: str
    problem: Problem
    trial: int


@dataclass(frozen=True)
class Cell:
    """One point of a sweep's grid."""

    cell_id: str
    policy: str
    concurrency: int
    repeat: int
    seed: int
    samples: tuple[Sample, ...]


@dataclass(frozen=True)
class Plan:
    """A sweep's cells, in the order they run."""

    sweep_id: str
    suite: Suite
    served_name: str
    engine_id: str
    model_id: str
    task_set_id: str
    index_id: str | None
    """None where the tasks have nothing to search."""
    cells: tuple[Cell, ...]
    model: Model | None = None
    """The registry's entry; None asks as `Model` does by default."""
    roles: Roles = NO_ROLES

    @property
    def parents(self) -> list[str]:
        """What its cells come from."""
        own = (self.task_set_id, self.index_id, self.engine_id, self.model_id)
        return _parents(*own, roles=self.roles)


def make_plan(
    suite: Suite,
    problems: Sequence[Problem],
    task_set_id: str,
    index_id: str | None,
    engine_id: str,
    model_id: str,
    served_name: str,
    model: Model | None = None,
    roles: Roles = NO_ROLES,
) -> Plan:
    """The cells of `suite`. Policies alternate (ABBA) so that drift of the machine is no effect.

    Each cell has the same tasks, in the same order, with the same seeds. Raises SuiteError where
    the suite's agent is not made for such problems.
    """
    check_agent(suite, roles, problems, searches=bool(index_id or suite.search_url))
    parents = _parents(task_set_id, index_id, engine_id, model_id, roles=roles)
    common = _common(suite, model, roles)
    common |= {"turns": suite.max_turns, "loop": LOOP_VERSION, "model": served_name}
    common |= {"tasks": [problem.task_id for problem in problems], "sweep": suite.name}
    order = list(problems)
    Random(suite.tasks.seed).shuffle(order)
    cells = []
    for repeat in range(suite.repeats):
        for place, concurrency in enumerate(suite.concurrency):
            turn = -1 if (place + repeat) % 2 else 1
            for policy in suite.policies[::turn]:
                point = {"policy": policy, "concurrency": concurrency, "repeat": repeat}
                if policy == "cap":
                    point["cap"] = suite.cap
                cell_id = artifact_id("cell", common | point, parents)
                samples = tuple(
                    Sample(artifact_id("sample", [cell_id, each.task_id, trial]), each, trial)
                    for trial in range(suite.samples_of_each)
                    for each in order
                )
                cells.append(Cell(cell_id, policy, concurrency, repeat, repeat, samples))
    # Without the axes: adding a concurrency level or a repeat later adds cells to the same sweep.
    sweep_id = artifact_id("sweep", common, parents)
    ids = (engine_id, model_id, task_set_id, index_id)
    return Plan(sweep_id, suite, served_name, *ids, tuple(cells), model, roles)


def _common(suite: Suite, model: Model | None, roles: Roles) -> dict[str, Any]:
    """What all cells of a suite share that decides an answer or its score.

    What a suite does not name is no part of it, so that what was measured before there was such a
    key is found again.
    """
    common = suite.model_dump(include={"temperature", "max_tokens"})
    common |= {"benchmark": suite.benchmark_name, "trials": suite.samples_of_each}
    given: dict[str, Any] = {"command": suite.command, "mcp": suite.mcp}
    given |= {"search_url": suite.search_url, "attempt_usd": suite.attempt_usd}
    fields = Suite.model_fields
    given |= {name: v for name in NAMED if (v := getattr(suite, name)) != fields[name].default}
    given["asked"] = model.asked if model is not None and model.asked else None
    return common | {k: v for k, v in given.items() if v is not None} | roles.content


def enter_plan(plan: Plan, catalog: Catalog) -> None:
    """Enter the sweep and its cells; those already there keep their state."""
    known = {row["cell_id"] for row in catalog.rows(sa.select(cat.cells.c.cell_id))}
    with catalog.transaction() as connection:
        sweep = {"sweep_id": plan.sweep_id, "name": plan.suite.name, "created_at": cat.now()}
        cat.upsert(connection, cat.sweeps, sweep | {"spec": plan.suite.model_dump_json()})
        for position, cell in enumerate(plan.cells):
            if cell.cell_id not in known:
                connection.execute(sa.insert(cat.cells).values(_row(plan, cell, position)))
                connection.execute(sa.insert(cat.samples), _sample_rows(cell))
    for cell in plan.cells:
        detail = {"policy": cell.policy, "concurrency": cell.concurrency, "repeat": cell.repeat}
        catalog.enter_artifact(cell.cell_id, detail, plan.parents)
    catalog.enter_artifact(
        plan.sweep_id, {"name": plan.suite.name}, [cell.cell_id for cell in plan.cells]
    )


def _parents(*ids: str | None, roles: Roles) -> list[str]:
    known = [each for each in ids if each is not None]
    return known + [each for each in roles.engine_ids if each not in known]


def finished_samples(catalog: Catalog, cell: Cell) -> set[str]:
    """Ids of the cell's samples that have an attempt whose outcome is the model's own."""
    states = cat.attempt_states
    query = sa.select(states.c.sample_id).where(
        states.c.cell_id == cell.cell_id,
        states.c.state == "done",
        states.c.status.not_in(("infra_error", "cancelled")),
    )
    return {row["sample_id"] for row in catalog.rows(query)}


def _sample_rows(cell: Cell) -> list[dict[str, Any]]:
    return [
        {
            "sample_id": sample.sample_id,
            "cell_id": cell.cell_id,
            "task_id": sample.problem.task_id,
            "trial": sample.trial,
            "position": position,
        }
        for position, sample in enumerate(cell.samples)
    ]


def _row(plan: Plan, cell: Cell, position: int) -> dict[str, Any]:
    return {
        "cell_id": cell.cell_id,
        "sweep_id": plan.sweep_id,
        "benchmark": plan.suite.benchmark_name,
        "model": plan.served_name,
        "policy": cell.policy,
        "concurrency": cell.concurrency,
        "repeat": cell.repeat,
        "position": position,
        "task_set_id": plan.task_set_id,
        "index_id": plan.index_id or "",
        "engine_id": plan.engine_id,
        "samples": len(cell.samples),
        "status": "planned",
    }
