"""Turn a suite into cells with content-hash ids, and say what of each is already there."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import sqlalchemy as sa

from tutti.storage import Catalog, artifact_id
from tutti.storage import catalog as cat
from tutti.tasks.serving import Model
from tutti.tasks.sweeps.plan.problem import Problem
from tutti.tasks.sweeps.plan.roles import NO_ROLES, Roles, check_agent
from tutti.tasks.sweeps.plan.superseded import supersede
from tutti.tasks.sweeps.spec import Suite, due_times

IDS_AT_ONCE = 500  # bound variables of one statement
NAMED = ("working_s", "command_s", "python")  # part of a cell where they are not the default
A_A = -1  # the repeat of a cell that measures the first policy again, with the first repeat's seeds
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
    whole: Suite | None = None
    """The suite that this is a part of, of several benchmarks or models, or a probe of."""

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
    whole: Suite | None = None,
    sweep_id: str | None = None,
) -> Plan:
    """The cells of `suite`. Policies alternate so that drift of the machine is no effect.

    Each cell has the same tasks, in the same order, with the same seeds; of a higher level more
    trials where `per_session` says so. `whole` and `sweep_id` are those of a grid that it is part
    of (`tasks.sweeps.spec.grid`). Raises SuiteError where the suite's agent is not made for such
    problems, or its trace is too short.
    """
    check_agent(suite, roles, problems, searches=bool(index_id or suite.search_url))
    parents = _parents(task_set_id, index_id, engine_id, model_id, roles=roles)
    common = _common(suite, model, roles)
    common |= {"turns": suite.max_turns, "loop": LOOP_VERSION, "model": served_name}
    common |= {"tasks": [problem.task_id for problem in problems]}
    common["sweep"] = sweep_id or suite.name  # a grid's cells are no other sweep's
    order = list(problems)
    Random(suite.tasks.seed).shuffle(order)
    cells = []
    for policy, concurrency, repeat in _run_order(suite):
        trials = _trials(suite, concurrency, len(order))
        point = _point(suite, policy, concurrency, repeat, trials)
        cell_id = artifact_id("cell", common | point, parents)
        samples = tuple(
            Sample(artifact_id("sample", [cell_id, each.task_id, trial]), each, trial)
            for trial in range(trials)
            for each in order
        )
        seed = max(repeat, 0)
        due_times(suite.load, concurrency, len(samples), seed)  # too short a trace is said now
        cells.append(Cell(cell_id, policy, concurrency, repeat, seed, samples))
    # Without the axes: adding a concurrency level or a repeat later adds cells to the same sweep.
    sweep_id = sweep_id or artifact_id("sweep", common, parents)
    ids = (engine_id, model_id, task_set_id, index_id)
    return Plan(sweep_id, suite, served_name, *ids, tuple(cells), model, roles, whole)


def _run_order(suite: Suite) -> Iterator[tuple[str, int, int]]:
    """(policy, concurrency, repeat) of each cell: block by block, a block being one level once."""
    for repeat in range(suite.repeats):
        for place, concurrency in enumerate(suite.concurrency):
            policies = list(suite.policies)
            if suite.order == "random":
                Random(f"{suite.tasks.seed}/{repeat}/{concurrency}").shuffle(policies)
            elif (place + repeat) % 2:
                policies.reverse()
            if suite.stop_when_sure is not None:  # the others are compared with its cell
                policies.sort(key=lambda policy: policy != suite.policies[0])
            yield from ((policy, concurrency, repeat) for policy in policies)
            if suite.a_a and repeat == 0:
                yield suite.policies[0], concurrency, A_A


def _trials(suite: Suite, concurrency: int, tasks: int) -> int:
    """Samples of each task in a cell: so many that each session has its share."""
    needed = -(-suite.per_session * concurrency // max(tasks, 1))
    return max(suite.samples_of_each, needed)


def _point(suite: Suite, policy: str, concurrency: int, repeat: int, trials: int) -> dict[str, Any]:
    """What of a cell's id is not its sweep's; what is as it always was is no part of it."""
    point: dict[str, Any] = {"policy": policy, "concurrency": concurrency, "repeat": repeat}
    if policy == "cap":
        point["cap"] = suite.cap
    if trials != suite.samples_of_each:
        point["trials"] = trials
    if suite.load.kind != "closed":
        point["load"] = suite.load.content
    if suite.engines > 1:
        point["engines"] = suite.engines
    if suite.cell_s is not None:
        point["cell_s"] = suite.cell_s
    return point


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
    """Enter the sweep and its cells, all or nothing; those already there keep their state."""
    with catalog.transaction() as connection:
        spec = (plan.whole or plan.suite).model_dump_json()
        sweep = {"sweep_id": plan.sweep_id, "name": plan.suite.name, "created_at": cat.now()}
        # First: another process that enters the same sweep waits here, and then knows its cells.
        cat.upsert(connection, cat.sweeps, sweep | {"spec": spec})
        ids = [cell.cell_id for cell in plan.cells]
        known = _known(connection, cat.cells.c.cell_id, ids)
        new = [each for each in enumerate(plan.cells) if each[1].cell_id not in known]
        _insert(connection, cat.cells, [_row(plan, cell, position) for position, cell in new])
        _insert(connection, cat.samples, [row for _, cell in new for row in _sample_rows(cell)])
        supersede(plan, connection)
        _complete_finished(plan, connection)
        _enter_artifacts(plan, connection)


def _complete_finished(plan: Plan, connection: sa.Connection) -> None:
    """Cells whose run was killed between its last commit and saying so: nobody runs them again."""
    cells, states = cat.cells.c, cat.attempt_states.c
    finished = sa.select(sa.func.count(sa.distinct(states.sample_id)))
    finished = finished.where(states.cell_id == cells.cell_id, _finished())
    ended = sa.func.coalesce(cells.ended_at, cat.now())
    connection.execute(
        sa.update(cat.cells)
        .where(cells.sweep_id == plan.sweep_id, cells.status.in_(("running", "incomplete")))
        .where(cells.samples <= finished.scalar_subquery())
        .values(status=cat.FINISHED, ended_at=ended)
    )


def _enter_artifacts(plan: Plan, connection: sa.Connection) -> None:
    """The cells, and the sweep made of them, with what each comes from; as `enter_artifact` does
    one by one."""
    made: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for cell in plan.cells:
        detail = {"policy": cell.policy, "concurrency": cell.concurrency, "repeat": cell.repeat}
        made[cell.cell_id] = (detail, plan.parents)
    made[plan.sweep_id] = ({"name": plan.suite.name}, list(made))
    known = _known(connection, cat.artifacts.c.artifact_id, list(made))
    new = {each: given for each, given in made.items() if each not in known}
    rows = [
        {
            "artifact_id": each,
            "kind": each.split(":", 1)[0],
            "detail": json.dumps(detail, sort_keys=True),
            "created_at": cat.now(),
        }
        for each, (detail, _) in new.items()
    ]
    of = cat.artifact_parents.c
    entered = sa.select(of.artifact_id, of.parent_id).where(of.artifact_id == plan.sweep_id)
    pairs = {(each, parent) for each, (_, parents) in new.items() for parent in parents}
    pairs |= {(plan.sweep_id, cell.cell_id) for cell in plan.cells}
    pairs -= {(row[0], row[1]) for row in connection.execute(entered)}
    _insert(connection, cat.artifacts, rows)
    links = [{"artifact_id": each, "parent_id": parent} for each, parent in sorted(pairs)]
    _insert(connection, cat.artifact_parents, links)


def _known(connection: sa.Connection, column: "sa.Column[str]", ids: Sequence[str]) -> set[str]:
    """Those of `ids` that `column` holds."""
    found: set[str] = set()
    for start in range(0, len(ids), IDS_AT_ONCE):
        query = sa.select(column).where(column.in_(ids[start : start + IDS_AT_ONCE]))
        found |= set(connection.execute(query).scalars())
    return found


def _insert(connection: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(sa.insert(table), rows)


def _parents(*ids: str | None, roles: Roles) -> list[str]:
    known = [each for each in ids if each is not None]
    return known + [each for each in roles.engine_ids if each not in known]


def finished_samples(catalog: Catalog, cell: Cell) -> set[str]:
    """Ids of the cell's samples that have an attempt whose outcome is the model's own."""
    states = cat.attempt_states
    query = sa.select(states.c.sample_id).where(states.c.cell_id == cell.cell_id, _finished())
    return {row["sample_id"] for row in catalog.rows(query)}


def finished_counts(catalog: Catalog, cells: Sequence[Cell]) -> dict[str, int]:
    """How many such samples each of `cells` has, by cell id: one question for a whole sweep."""
    states, ids = cat.attempt_states, [cell.cell_id for cell in cells]
    counts = dict.fromkeys(ids, 0)
    for start in range(0, len(ids), IDS_AT_ONCE):
        some = states.c.cell_id.in_(ids[start : start + IDS_AT_ONCE])
        n = sa.func.count(sa.distinct(states.c.sample_id)).label("n")
        query = sa.select(states.c.cell_id, n).where(some, _finished())
        for row in catalog.rows(query.group_by(states.c.cell_id)):
            counts[row["cell_id"]] = row["n"]
    return counts


def _finished() -> "sa.ColumnElement[bool]":
    states = cat.attempt_states
    counts = states.c.status.not_in(("infra_error", "cancelled"))
    return (states.c.state == "done") & counts


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
