"""Tests of drawing candidates in turns: no template has a most common answer, and no two templates
ask for the same."""

import itertools
import random
from collections import Counter
from collections.abc import Callable

from tests.synthesis.example import LOOKED_UP
from tests.synthesis.programs.trial import trial
from tutti.tasks.synthesis.domains import DomainTask, changed_task
from tutti.tasks.synthesis.programs import PROGRAMS
from tutti.tasks.synthesis.programs.base.program import APART, take_turns


def drawing(rng: random.Random, template: str, answers: int) -> Callable[[], DomainTask]:
    """Return a function that draws tasks of which half have the first answer; "" is no answer."""

    def draw() -> DomainTask:
        number = rng.choice([0, rng.randrange(answers)])
        communicate = (f"answer {number}",) if answers > 1 else ()
        update = {"template": template, "communicate": communicate}
        return changed_task(LOOKED_UP, **update | {"slots": {"n": str(rng.randrange(300))}})

    return draw


def test_no_answer_comes_again_within_a_few_tasks_of_a_template() -> None:
    draws = {name: drawing(random.Random(1), name, 9) for name in ("one", "two")}
    tasks = list(itertools.islice(take_turns(draws, ""), 200))
    assert Counter(task.template for task in tasks) == {"one": 100, "two": 100}
    for name in draws:
        said = [task.world.communicate for task in tasks if task.template == name]
        assert all(len(set(said[n : n + APART + 1])) == APART + 1 for n in range(100 - APART))


def test_tasks_that_must_say_nothing_are_not_held_for_tasks_with_one_answer() -> None:
    draws = {"one": drawing(random.Random(2), "one", 1)}
    assert len(list(take_turns(draws, ""))) > 200


def test_templates_that_come_to_the_same_share_their_slots() -> None:
    draws = {name: drawing(random.Random(3), name, 9) for name in ("one", "two")}
    alike = list(take_turns(draws, "", alike=("two", "one")))
    slots = [task.slots["n"] for task in alike]
    assert len(set(slots)) == len(slots) and {task.template for task in alike} == draws.keys()
    apart = list(take_turns(draws, ""))
    assert len(apart) > len({task.slots["n"] for task in apart})


def test_who_insists_at_a_desk_is_nobody_who_does_not() -> None:
    """No two workflow tasks have the same golden calls for the same initial case."""
    for seed in (1, 2, 3):
        tasks = trial(PROGRAMS["workflow"], seed, 500).tasks
        wanted = [(str(task.world.changed), str(task.world.actions)) for task in tasks]
        assert len(set(wanted)) == len(wanted) == 500
