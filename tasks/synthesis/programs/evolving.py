"""Harder variants of a program's tasks, each made of the one before it.

In: a program's candidates, and how it makes one harder. Out: the candidates, each followed by its
variants, which name their parent and pass the same gates.
"""

from collections.abc import Callable, Iterable, Iterator

from tutti.tasks.synthesis.domains import DomainTask
from tutti.tasks.synthesis.programs.program import Knob

KNOB = "evolved"
EVOLVED = Knob(0, 0, 2, "harder variants of each task, each made of the one before it")
Harder = Callable[[DomainTask], DomainTask | None]
"""A harder variant of a task; None where there is none."""


def with_harder(
    tasks: Iterable[DomainTask], harder: Harder, rounds: int, measure: str
) -> Iterator[DomainTask]:
    """Each task and its variants. A variant whose difficulty `measure` is not larger than its
    parent's is left out, and so is one that asks for what another asks for."""
    seen: set[tuple[str, ...]] = set()
    for task in tasks:
        yield task
        seen.add(_asked(task))
        parent = task
        for number in range(1, rounds + 1):
            made = harder(parent)
            if made is None or made.difficulty[measure] <= parent.difficulty[measure]:
                break
            if _asked(made) in seen:
                break
            seen.add(_asked(made))
            parent = made.model_copy(
                update={
                    "evolved_from": parent.task_id,
                    "difficulty": {**made.difficulty, KNOB: number},
                }
            )
            yield parent


def _asked(task: DomainTask) -> tuple[str, ...]:
    return (task.template, *sorted(f"{name}={value}" for name, value in task.slots.items()))
