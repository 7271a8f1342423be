"""Tests of every program's guarantees: valid records, golden calls that run, a solver that finds
the answers by the tools, rules that forbid the right calls, splits that share nothing."""

import itertools
import random

import pytest

from tests.synthesis.programs.trial import (
    knobs_of,
    open_toolkit,
    record_faults,
    replayed,
    rule_breaks,
    solved,
    trial,
    undeclared,
    unobtainable,
)
from tutti.tasks.synthesis.domains import DomainTask, changed_task
from tutti.tasks.synthesis.programs import PROGRAMS
from tutti.tasks.synthesis.programs.base.program import leaks, split_of, told_by
from tutti.tasks.task_sets import task_line

OURS = ("arithmetic", "knowledge_graph", "workflow")
CASES = list(itertools.product(OURS, (1, 2, 3)))


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_records_are_valid_and_refer_to_what_is_there(name: str, seed: int) -> None:
    domain = trial(PROGRAMS[name], seed, 0).domain
    assert record_faults(domain) == []
    assert sum(len(table) for table in domain.records.values()) < 600


@pytest.mark.parametrize(("name", "seed"), CASES)
async def test_golden_calls_run_twice_alike_and_need_nothing_unknown(name: str, seed: int) -> None:
    one = trial(PROGRAMS[name], seed, 150)
    async with open_toolkit(one.domain) as toolkit:
        replays = await replayed(toolkit, one.tasks)
        assert await undeclared(toolkit, one.tasks, replays) == []
    for task, replay in zip(one.tasks, replays, strict=True):
        assert unobtainable(task, replay) == [], task.world.scenario.text


@pytest.mark.parametrize(("name", "seed"), CASES)
async def test_the_solver_reaches_the_state_and_says_the_answer(name: str, seed: int) -> None:
    one = trial(PROGRAMS[name], seed, 40)
    async with open_toolkit(one.domain) as toolkit:
        for task, replay in zip(one.tasks, await replayed(toolkit, one.tasks), strict=True):
            said, state = await solved(toolkit, one.program, task)
            assert state == replay.after, task
            assert all(fact in said for fact in task.world.communicate), (said, task)


@pytest.mark.parametrize(("name", "seed"), CASES)
async def test_rules_forbid_what_is_forbidden_and_no_golden_call(name: str, seed: int) -> None:
    one = trial(PROGRAMS[name], seed, 40)
    ruled = any(rule.function for rule in one.domain.rules)
    async with open_toolkit(one.domain) as toolkit:
        for task in one.tasks:
            broken, caught = await rule_breaks(toolkit, task)
            assert broken == []
            assert all(caught), task.world.forbidden
            assert bool(caught) == ruled


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_no_entity_is_in_two_splits_and_none_is_asked_twice(name: str, seed: int) -> None:
    one = trial(PROGRAMS[name], seed, 1000)
    assert len(one.tasks) >= 500
    asked = [
        (each.template, each.world.scenario.text.split(" It belongs into ")[0])
        for each in one.tasks
    ]
    assert len(set(asked)) == len(asked)
    assert len({each.world.scenario.text for each in one.tasks}) == len(asked)
    for task in one.tasks:
        assert task.sources and {split_of(each) for each in task.sources} == {task.split}
    assert {each.split for each in one.tasks} == {"train", "validation", "test"}


@pytest.mark.parametrize("name", OURS)
def test_held_out_templates_are_in_the_test_split_only(name: str) -> None:
    one = trial(PROGRAMS[name], 4, 1000)
    held = [each.split for each in one.tasks if each.template in one.program.held_out]
    assert set(held) == {"test"}


@pytest.mark.parametrize("name", OURS)
def test_answers_are_in_nothing_that_is_told(name: str) -> None:
    one = trial(PROGRAMS[name], 5, 300)
    told = told_by(one.domain)
    assert all(each.world.communicate for each in one.tasks)
    assert not [each for each in one.tasks if leaks(each, told)]


@pytest.mark.parametrize("name", OURS)
def test_the_same_seed_gives_the_same_bytes_and_another_others(name: str) -> None:
    first, second, third = (trial(PROGRAMS[name], seed, 100) for seed in (6, 6, 7))
    assert first.domain.model_dump_json() == second.domain.model_dump_json()
    assert [task_line(t) for t in first.tasks] == [task_line(t) for t in second.tasks]
    assert first.domain.domain_id != third.domain.domain_id


@pytest.mark.parametrize(
    ("name", "knob"), [(name, knob) for name in OURS for knob in PROGRAMS[name].knobs]
)
async def test_every_knob_has_an_effect_and_its_ends_work(name: str, knob: str) -> None:
    program = PROGRAMS[name]
    ends = [
        trial(program, 8, 40, **{knob: value})
        for value in (program.knobs[knob].least, program.knobs[knob].most)
    ]
    low, high = ([_unlabelled(task) for task in end.tasks] for end in ends)
    assert low != high or ends[0].domain.records != ends[1].domain.records
    for end in ends:
        async with open_toolkit(end.domain) as toolkit:
            await replayed(toolkit, end.tasks)
            for task in end.tasks[:5]:
                said, _ = await solved(toolkit, program, task)
                assert all(fact in said for fact in task.world.communicate)


def _unlabelled(task: DomainTask) -> DomainTask:
    """Return a task without the knob's own figure, to show the knob's effect."""
    return changed_task(task, difficulty={})


@pytest.mark.parametrize("name", OURS)
def test_an_instance_ends(name: str) -> None:
    program = PROGRAMS[name]
    knobs = knobs_of(program)
    domain = program.build(random.Random(9), knobs)
    assert 500 <= sum(1 for _ in program.propose(domain, random.Random(9), knobs)) < 10_000
