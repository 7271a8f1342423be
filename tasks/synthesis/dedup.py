"""Remove exact and near duplicates, within and across splits."""

import re
from collections.abc import Iterable

from tutti.tasks.task_sets import Task

WORD = re.compile(r"[A-Za-z0-9_.']+|[^\sA-Za-z0-9_.']")


def duplicate_reasons(tasks: Iterable[Task]) -> list[str]:
    """For each task, why it duplicates an earlier one, or "" if it does not.

    Exact: the same words in the same order, case aside. Near: the same family asks about the same
    slots in other words, or about another document whose question and answer differ from an
    earlier one's only in the module's name (an alias). A test task is compared with every earlier
    task, whatever its split, so nothing asked in training is asked again.
    """
    exact: set[tuple[str, ...]] = set()
    near: set[tuple[str, ...]] = set()
    reasons = []
    for task in tasks:
        words = tuple(word.lower() for word in WORD.findall(task.inputs["question"]))
        slots = tuple(f"{key}={value}" for key, value in sorted(task.slots.items()))
        aliased = tuple(slot.rsplit(".", 1)[-1] for slot in slots)
        keys = {
            (task.family, "slots", *slots),
            (task.family, "alias", task.target["answer"], *aliased),
        }
        if words in exact:
            reasons.append("exact duplicate")
        elif near & keys:
            reasons.append("near duplicate")
        else:
            reasons.append("")
        exact.add(words)
        near |= keys
    return reasons
