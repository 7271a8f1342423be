"""Tests of harder variants: they name their parent, are harder by the program's own measure, are
solved by its solver, and pass the gates like other tasks."""

import pytest

from tests.synthesis.programs.trial import knobs_of, open_toolkit, replayed, solved, trial
from tutti.tasks.synthesis.domains import DomainTask, changed_task
from tutti.tasks.synthesis.gating.gate import GateContext
from tutti.tasks.synthesis.making.by_program import judge
from tutti.tasks.synthesis.programs import PROGRAMS
from tutti.tasks.synthesis.programs.base.program import KNOB, with_harder

MEASURES = {"retail": "steps", "bank": "steps", "knowledge_graph": "hops"}


def variants(tasks: list[DomainTask]) -> list[tuple[DomainTask, DomainTask]]:
    """Return pairs (variant, its parent)."""
    known = {task.task_id: task for task in tasks}
    return [(task, known[task.world.evolved_from]) for task in tasks if task.world.evolved_from]


@pytest.mark.parametrize("name", MEASURES)
async def test_variants_are_harder_and_pass_the_gates(name: str) -> None:
    one = trial(PROGRAMS[name], 1, 180, evolved=2)
    tasks = list(one.tasks)
    found = variants(tasks)
    assert len(found) > 60
    measure = MEASURES[name]
    for task, parent in found:
        assert task.difficulty[measure] > parent.difficulty[measure]
        assert task.difficulty[KNOB] == parent.difficulty.get(KNOB, 0) + 1
        assert task.split == parent.split and parent.sources[0] in task.sources
        if name == "knowledge_graph":
            assert task.slots["path"].startswith(parent.slots["path"])
        else:
            assert task.world.scenario.known.startswith(parent.world.scenario.known[:20])
            assert set(parent.slots["wishes"].split()) < set(task.slots["wishes"].split())
    async with open_toolkit(one.domain) as toolkit:
        judged = await judge(tasks, GateContext(one.domain, toolkit, one.program.solve))
        dropped = [each for each in judged if each.reason is not None]
        assert len(dropped) <= len(tasks) // 50, [(d.gates[-1], d.reason) for d in dropped]
        hardest = [task for task, _ in found][:20]
        for task, replay in zip(hardest, await replayed(toolkit, hardest), strict=True):
            said, state = await solved(toolkit, one.program, task)
            assert state == replay.after and all(fact in said for fact in task.world.communicate)


@pytest.mark.parametrize("name", MEASURES)
def test_without_the_knob_nothing_is_evolved_and_with_it_bytes_are_the_same(name: str) -> None:
    plain = trial(PROGRAMS[name], 3, 60)
    assert not any(task.world.evolved_from or KNOB in task.difficulty for task in plain.tasks)
    again = [trial(PROGRAMS[name], 3, 60, evolved=1).tasks for _ in range(2)]
    assert again[0] == again[1] and any(task.world.evolved_from for task in again[0])
    assert knobs_of(PROGRAMS[name])[KNOB] == 0


def test_a_variant_that_is_not_harder_is_left_out() -> None:
    """A variant that duplicates a task is left out, too."""
    parents = list(trial(PROGRAMS["retail"], 1, 3).tasks)
    assert list(with_harder(parents, lambda task: task, 2, "steps")) == parents
    harder = {"difficulty": {**parents[0].difficulty, "steps": 9}}
    assert list(with_harder(parents, lambda t: changed_task(t, **harder), 1, "steps")) == parents
    same = changed_task(parents[0], **{**harder, "slots": {"wishes": "more"}})
    made = list(with_harder(parents, lambda task: same, 1, "steps"))
    assert len(made) == len(parents) + 1
