"""Tests of ids: those of stored sweeps stay, and each field of a suite changes exactly what its
mark says."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.sweeps.conftest import config_of, make_tasks
from tutti.tasks.serving.registry.models import Model
from tutti.tasks.sweeps.plan.config import CellConfig
from tutti.tasks.sweeps.plan.plan import Plan, grid_id_of, plan_of
from tutti.tasks.sweeps.plan.roles import Roles, ServedModel
from tutti.tasks.sweeps.spec.marks import AXIS, TASKS, FieldScope, marks_of
from tutti.tasks.sweeps.spec.policy import Policy
from tutti.tasks.sweeps.spec.suite import Suite

STORED = json.loads(Path(__file__).with_name("stored_ids.json").read_text())
"""Ids as they were before suites had marks: those of a sweep, its cells and their first samples."""
BASE = Suite(policies=("passthrough", "cap"), concurrency=(2,))
CHANGES: dict[str, Any] = {
    "name": "another",
    "benchmark": "gsm8k",
    "benchmarks": ("gsm8k", "stdlib"),
    "tasks": {"seed": 7},
    "source": Path("elsewhere"),
    "split": "train",
    "limit": 3,
    "ids": ("a",),
    "where": "subject = 'x'",
    "prompt": "generic",
    "scorer": "numeric",
    "question_field": "asked",
    "answer_field": "gold",
    "rule": "strict",
    "solo": True,
    "search_index": "index:2",
    "model": "other",
    "models": ("a", "b"),
    "judge": "other",
    "user": "other",
    "agent": "pocket",
    "experts": {"pocket": "other"},
    "search_url": "http://127.0.0.1:1",
    "policies": ("passthrough", "cap", "adaptive"),
    "concurrency": (2, 4),
    "engines": 2,
    "order": "random",
    "interleave": True,
    "restarts": 3,
    "restart_pause_s": 9.0,
    "load": {"kind": "ramp", "over_s": 2.0},
    "repeats": 2,
    "repeat_baseline": True,
    "trials": 2,
    "first_trial": 4,
    "min_samples_per_session": 40,
    "max_cell_s": 30.0,
    "saturation": {"step_latency_p95": 1.0},
    "stop_when_decided": {"margin": 0.1},
    "budget": {"minutes": 1.0},
    "windows": {"first": (0.0, 5.0)},
    "gates": ({"metric": "score", "at_least": 0.5},),
    "baseline": "another",
    "schedule": "0 1 * * *",
    "temperature": 0.7,
    "max_tokens": 32,
    "reasoning": "</think>",
    "max_turns": 3,
    "working_s": 5.0,
    "attempt_usd": 0.5,
    "command": "run it",
    "mcp": "serve it",
    "python": "session",
    "parallel": {"solutions": 4},
    "command_s": 5.0,
    "unsafe_sandbox": True,
    "max_attempts": 2,
}
"""Of each field another value than its default."""
PUBLIC = (
    *("source", "split", "limit", "ids", "where", "prompt", "judge", "user", "command", "mcp"),
    "search_index",
)
NEEDS: dict[str, dict[str, Any]] = {name: {"benchmark": "gsm8k"} for name in PUBLIC}
NEEDS |= {"experts": {"agent": "pocket"}, "search_url": {"benchmark": "gsm8k", "agent": "pocket"}}
OWN = ("scorer", "question_field", "answer_field")
NEEDS |= {name: {"benchmark": "my.jsonl", "scorer": "exact"} for name in OWN}
NEEDS |= {"rule": {"benchmark": "bfcl"}}
NEEDS |= {"solo": {"benchmark": "./shop"}}
NEEDS |= {"parallel": {"benchmark": "gsm8k", "temperature": 0.7}}


def config(suite: Suite) -> CellConfig:
    """Return the set-up of `suite`, in which every field with an effect leaves a trace."""
    reached = {n: suite.value_of(n) for n, mark in marks_of(Suite).items() if mark == TASKS}
    made = config_of(make_tasks(4))
    content = json.dumps(reached, default=str, sort_keys=True)
    task_set = replace(made.task_set, task_set_id=f"task_set:{content}")
    named = {n: suite.value_of(n) for n in ("judge", "user", "agent", "experts")}
    entry = Model(provider="openai", endpoint="http://a:1/v1", context_tokens=64)
    other = ServedModel("other", f"engine:{json.dumps(named, sort_keys=True)}", entry)
    roles = Roles(judge=other if any(named.values()) else None)
    index_id = suite.harness.search_index or "index:1"
    model_id = f"checkpoint:{suite.model}"
    return replace(made, task_set=task_set, roles=roles, model_id=model_id, index_id=index_id)


def planned(suite: Suite) -> Plan:
    return plan_of(suite, config(suite))


@pytest.mark.parametrize("kind", STORED)
def test_the_ids_of_stored_sweeps_are_found_again(kind: str) -> None:
    """A sweep that was measured before the marks is reused."""
    stored = STORED[kind]
    base = {"concurrency": [2], "policies": ["passthrough"]}
    suite = Suite.model_validate(base).with_fields(stored["suite"])
    plan = plan_of(suite, config_of(make_tasks(6)))
    assert plan.sweep_id == stored["sweep"]
    assert [
        [c.policy, c.concurrency, c.repeat, c.cell_id, c.samples[0].sample_id] for c in plan.cells
    ] == stored["cells"]


def test_every_field_has_its_mark_and_a_change() -> None:
    """A new field without a mark, or one that is not checked here, fails the test."""
    assert set(marks_of(Suite)) == set(CHANGES)


@pytest.mark.parametrize("name", CHANGES)
def test_a_field_changes_what_its_mark_says(name: str) -> None:
    """The change affects the sweep's id, its cells' ids, the set of cells, or nothing."""
    mark, base = marks_of(Suite)[name], BASE.with_fields(NEEDS.get(name, {}))
    changed = base.with_fields({name: CHANGES[name]})
    if name in ("benchmarks", "models"):  # of a grid, whose id has no axes
        more = base.with_fields({name: (*CHANGES[name], "ifeval")})
        assert mark == AXIS and grid_id_of(changed) == grid_id_of(more) is not None
        return
    one, other = planned(base), planned(changed)
    cells, others = ({cell.cell_id for cell in plan.cells} for plan in (one, other))
    same_sweep = one.sweep_id == other.sweep_id
    expected: dict[Any, Callable[[], bool]] = {
        FieldScope.AXIS: lambda: same_sweep and cells < others,
        FieldScope.CELL: lambda: same_sweep and bool(others - cells),
        FieldScope.SWEEP: lambda: not same_sweep and not cells & others,
        FieldScope.RUN: lambda: same_sweep and cells == others,
    }
    assert expected[mark.belongs]()


@pytest.mark.parametrize("name", [n for n, mark in marks_of(Suite).items() if n != "models"])
def test_a_grids_id_is_of_its_settings_alone(name: str) -> None:
    """Axes, fields of cells and fields of the run do not change it; the name and the settings
    do."""
    base = Suite(models=("a", "b")).with_fields(NEEDS.get(name, {}))
    if name == "model":
        return  # a grid has `models`
    changed = base.with_fields({name: CHANGES[name]})
    moved = grid_id_of(base) != grid_id_of(changed)
    assert moved == (marks_of(Suite)[name].belongs is FieldScope.SWEEP)


def test_a_policys_options_are_part_of_its_cells_ids() -> None:
    """`cap` written either way is the same cell; other options give another."""
    flat = planned(Suite(policies=(Policy(name="cap", limit=5),), concurrency=(2,)))
    own = planned(
        Suite.model_validate({"policies": [{"name": "cap", "limit": 5}], "concurrency": [2]})
    )
    assert flat.cells[0].cell_id == own.cells[0].cell_id
    several = Suite.model_validate(
        {
            "policies": ["adaptive", {"name": "cap", "limit": 5}, {"name": "cap", "limit": 7}],
            "concurrency": [2],
        }
    )
    labels = {cell.policy: cell.cell_id for cell in planned(several).cells}
    assert list(labels) == ["adaptive", "cap-limit-5", "cap-limit-7"]
    assert labels["cap-limit-5"] == flat.cells[0].cell_id != labels["cap-limit-7"]
