"""Skills from attributes of tasks: a label is the attributes' values.

Labels with too few tasks become one skill, `other`: a pass rate of three tasks says nothing.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tutti.errors import UsageError
from tutti.tasks.synthesis.domains import DomainTask

OTHER = "other"
"""The skill of labels that too few tasks have."""
UNASSIGNED = "unassigned"
"""The skill of tasks that the teacher gave none."""


@dataclass(frozen=True)
class FoundSkills:
    """A skill for each task."""

    of_task: Mapping[str, str]
    merged: Mapping[str, str]
    """By label, the skill that it became."""
    about: Mapping[str, str] = field(default_factory=dict)
    """By skill, a sentence."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """By what failed, why tasks are unassigned."""

    @property
    def sizes(self) -> dict[str, int]:
        """Return the number of tasks by skill, the largest first."""
        return dict(Counter(self.of_task.values()).most_common())


PLAIN = ("template", "domain", "split", "rules", "actions", "wording")
KNOB = "difficulty"
"""All knobs; ``difficulty.hops``: one of them."""


def skills_by_attributes(
    tasks: Sequence[tuple[str, DomainTask]], names: Sequence[str], least_tasks: int
) -> FoundSkills:
    """Return a skill for each task; `tasks` are given with their domain's name. Raises UsageError
    for an attribute that no task has."""
    labels = {task.task_id: _label(domain, task, names) for domain, task in tasks}
    counts = Counter(labels.values())
    merged = {label: label if n >= least_tasks else OTHER for label, n in counts.items()}
    return FoundSkills({task_id: merged[label] for task_id, label in labels.items()}, merged)


def check_attributes(tasks: Sequence[tuple[str, DomainTask]], names: Sequence[str]) -> None:
    """Raise UsageError, with the existing attributes, for an attribute that no task has."""
    knobs = sorted({knob for _, task in tasks for knob in task.difficulty})
    known = [*PLAIN, KNOB, *(f"{KNOB}.{knob}" for knob in knobs)]
    for name in names:
        if name not in known:
            raise UsageError(f"--skills {name}: no such attribute; there are {', '.join(known)}")


def _label(domain: str, task: DomainTask, names: Sequence[str]) -> str:
    values = {name: _value(domain, task, name) for name in names}
    if len(values) == 1:
        return next(iter(values.values())) or "none"
    return ", ".join(f"{name}={value or 'none'}" for name, value in values.items())


def _value(domain: str, task: DomainTask, name: str) -> str:
    plain = {
        "template": task.template,
        "domain": domain,
        "split": task.split,
        "rules": "+".join(sorted(task.world.rules)),
        "actions": str(len(task.world.actions)),
        "wording": task.attributes.get("wording", ""),
        KNOB: " ".join(f"{knob}={value}" for knob, value in sorted(task.difficulty.items())),
    }
    if name in plain:
        return plain[name]
    value = task.difficulty.get(name.partition(".")[2])
    return "" if value is None else f"{name.partition('.')[2]} {value}"
