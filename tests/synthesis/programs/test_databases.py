"""Tests that programs with databases generate valid records, and tasks that their own tools and
rules allow.

The toolkits run in the sandbox. The checks are in `databases.py`.
"""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.synthesis.programs.databases import (
    check_records,
    check_replays,
    check_rules,
    check_signatures,
    check_solver,
    check_tasks,
    knobs_of,
    made,
)
from tutti.tasks.synthesis.programs import PROGRAMS
from tutti.tasks.task_sets import task_line

DATABASES = ("retail", "bank")


@pytest.mark.parametrize("name", DATABASES)
@given(seed=st.integers(0, 10_000), steps=st.integers(1, 3), distractors=st.integers(0, 5))
@settings(max_examples=settings().max_examples // 10)
def test_records_and_tasks_are_valid(name: str, seed: int, steps: int, distractors: int) -> None:
    program = PROGRAMS[name]
    domain, tasks = made(program, seed, steps=steps, distractors=distractors, customers=30)
    check_records(domain)
    check_tasks(program, domain, tasks)
    assert tasks and all(task.difficulty["steps"] == steps for task in tasks)


@pytest.mark.parametrize("name", DATABASES)
def test_an_instance_has_500_tasks_of_8_templates_in_all_splits(name: str) -> None:
    program = PROGRAMS[name]
    for seed in range(3):
        _, tasks = made(program, seed)
        assert len(tasks) >= 500
        assert len({task.template for task in tasks}) >= 8
        assert {task.split for task in tasks} == {"train", "validation", "test"}
        assert program.held_out <= {task.template for task in tasks}


@pytest.mark.parametrize("seed", (1, 2))
@pytest.mark.parametrize("name", DATABASES)
async def test_golden_calls_replay_and_the_solver_agrees(name: str, seed: int) -> None:
    program = PROGRAMS[name]
    domain, tasks = made(program, seed, steps=seed)
    await check_signatures(domain)
    await check_replays(domain, tasks[:100])
    await check_solver(program, domain, tasks[:60])


@pytest.mark.parametrize("seed", (3, 4))
@pytest.mark.parametrize("name", DATABASES)
async def test_rules_forbid_the_forbidden_and_allow_the_golden(name: str, seed: int) -> None:
    domain, tasks = made(PROGRAMS[name], seed, steps=seed - 2)
    await check_rules(domain, tasks[:100])


@pytest.mark.parametrize("name", DATABASES)
def test_the_same_seed_gives_the_same_bytes_and_another_gives_others(name: str) -> None:
    (first, tasks), (again, once_more), (other, others) = (
        made(PROGRAMS[name], seed, customers=20) for seed in (7, 7, 8)
    )
    assert first.model_dump_json() == again.model_dump_json()
    assert [task_line(t) for t in tasks] == [task_line(t) for t in once_more]
    assert first.domain_id != other.domain_id
    assert not {task.task_id for task in tasks} & {task.task_id for task in others}


@pytest.mark.parametrize("name", DATABASES)
def test_knobs_have_effect(name: str) -> None:
    program = PROGRAMS[name]
    few, tasks = made(program, 1, customers=20, distractors=0, tools=4)
    many, offered = made(program, 1, customers=40, distractors=4, tools=len(few.tools))
    (people,) = (t.name for t in few.tables if t.name in ("customers", "clients"))
    assert (len(few.records[people]), len(many.records[people])) == (20, 40)
    size = {d.domain_id: sum(map(len, d.records.values())) for d in (few, many)}
    assert size[many.domain_id] > 2 * size[few.domain_id] - 200
    names = [(r["first_name"], r["last_name"]) for r in many.records[people].values()]
    assert len(set(names)) < len(names)
    assert all(set(task.world.tools) == {t.name for t in few.tools} for task in offered)
    assert all(len(task.world.tools) < len(few.tools) for task in tasks)


@pytest.mark.parametrize("name", DATABASES)
def test_a_solver_says_what_its_tools_lack(name: str) -> None:
    program = PROGRAMS[name]
    domain = program.build(Random(1), knobs_of(program, customers=20))
    task = next(program.propose(domain, Random(1), knobs_of(program)))
    oracle = program.solve(task)
    next(oracle)
    with pytest.raises(LookupError, match="find_"):
        oracle.send("error: nobody has this name")
