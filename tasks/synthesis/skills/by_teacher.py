"""Skills by a teacher: it labels a sample of tasks, merges labels, and assigns the other tasks."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random

from pydantic import BaseModel, ConfigDict

from tutti.tasks.synthesis.domains import DomainTask
from tutti.tasks.synthesis.skills.by_attributes import UNASSIGNED, FoundSkills
from tutti.tasks.synthesis.teacher import Question, Teacher, TeacherFailed, read_prompts

PROMPTS = Path(__file__).with_name("prompts")
AT_ONCE = 20
SHOWN_CHARS = 600
"""Of a task's text: enough to see what has to be done."""
MOST_NAME = 60


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NamedTask(_Strict):
    """A task's number in the question, and its label or skill."""

    task: int
    name: str


class NamedTasks(_Strict):
    """The teacher's names for the tasks of one question."""

    items: tuple[NamedTask, ...]


class Skill(_Strict):
    """A skill and the labels merged into it."""

    name: str
    about: str
    labels: tuple[str, ...]


class Skills(_Strict):
    """All skills."""

    skills: tuple[Skill, ...]


async def skills_by_teacher(
    teacher: Teacher, tasks: Sequence[DomainTask], sample: int, most: int
) -> FoundSkills:
    """Return a skill for each task: at most `most` skills, derived from a sample of `sample` tasks.
    Tasks of questions that the teacher did not answer are unassigned, with the reason. Raises
    TeacherFailed if the sample cannot be labelled or merged, BudgetSpent."""
    order = list(tasks)
    Random("skills").shuffle(order)
    labels = await _labels(teacher, order[:sample])
    skills = await _merged(teacher, Counter(labels.values()), most)
    merged = {label: skill.name for skill in skills for label in skill.labels}
    of_task = {task_id: merged[label] for task_id, label in labels.items()}
    assigned, reasons = await _assigned(teacher, order[sample:], skills)
    about = {skill.name: skill.about for skill in skills}
    return FoundSkills(of_task | assigned, merged, about, reasons)


async def _labels(teacher: Teacher, tasks: Sequence[DomainTask]) -> dict[str, str]:
    prompt = read_prompts(PROMPTS)["label"]
    labels: dict[str, str] = {}
    for start in range(0, len(tasks), AT_ONCE):
        part = tasks[start : start + AT_ONCE]
        text = prompt.render(tasks=_shown(part))
        found = await teacher.ask(
            Question(f"label-{start}", text, NamedTasks, _each_once(len(part)))
        )
        labels |= {part[each.task - 1].task_id: _plain(each.name) for each in found.items}
    return labels


async def _merged(teacher: Teacher, labels: Mapping[str, int], most: int) -> Sequence[Skill]:
    shown = "\n".join(f"- {label} ({n})" for label, n in sorted(labels.items()))
    text = read_prompts(PROMPTS)["merge"].render(labels=shown, most=str(most))
    check = partial(skills_reason, labels, most)
    return (await teacher.ask(Question("merge", text, Skills, check))).skills


def skills_reason(labels: Mapping[str, int], most: int, found: Skills) -> str:
    """Return why merged skills are wrong, or an empty string."""
    names = [each.name for each in found.skills]
    if not 1 <= len(names) <= most:
        return f"skills: {len(names)}; must be 1 to {most}"
    wrong = next((name for name in names if not 0 < len(name.strip()) <= MOST_NAME), None)
    if wrong is not None:
        return f"skills: {wrong!r}: a name has 1 to {MOST_NAME} characters"
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        return f"skills: {twice!r} is there twice"
    given = Counter(label for skill in found.skills for label in skill.labels)
    for label in sorted(given.keys() | labels.keys()):
        if label not in labels:
            return f"labels: {label!r} is no label of the tasks"
        if given[label] != 1:
            return f"labels: {label!r} belongs to {given[label]} skills, not to one"
    return ""


async def _assigned(
    teacher: Teacher, tasks: Sequence[DomainTask], skills: Sequence[Skill]
) -> tuple[dict[str, str], dict[str, str]]:
    prompt = read_prompts(PROMPTS)["assign"]
    shown = "\n".join(f"- {each.name}: {each.about}" for each in skills)
    names = frozenset(each.name for each in skills)
    parts = [tasks[start : start + AT_ONCE] for start in range(0, len(tasks), AT_ONCE)]
    questions = [
        Question(
            f"assign-{number}",
            prompt.render(skills=shown, tasks=_shown(part)),
            NamedTasks,
            _each_once(len(part), names),
        )
        for number, part in enumerate(parts)
    ]
    of_task: dict[str, str] = {}
    reasons: dict[str, str] = {}
    outcomes = await teacher.ask_all(questions)
    for question, part, outcome in zip(questions, parts, outcomes, strict=True):
        if isinstance(outcome, TeacherFailed):
            reasons[question.name] = str(outcome)
            of_task |= dict.fromkeys((each.task_id for each in part), UNASSIGNED)
        else:
            of_task |= {part[each.task - 1].task_id: each.name for each in outcome.items}
    return of_task, reasons


def _each_once(count: int, names: frozenset[str] | None = None) -> Callable[[NamedTasks], str]:
    """Return a check that every task is named once, with one of `names` if given."""

    def check(found: NamedTasks) -> str:
        given = Counter(each.task for each in found.items)
        for number in range(1, count + 1):
            if given.pop(number, 0) != 1:
                return f"items: task {number} must be there once"
        if given:
            return f"items: there is no task {next(iter(given))}"
        for each in found.items:
            if not 0 < len(each.name.strip()) <= MOST_NAME:
                return f"items: task {each.task}: a name has 1 to {MOST_NAME} characters"
            if names is not None and each.name not in names:
                return f"items: task {each.task}: no skill is called {each.name!r}"
        return ""

    return check


def _plain(label: str) -> str:
    return " ".join(label.lower().split())


def _shown(tasks: Sequence[DomainTask]) -> str:
    return "\n\n".join(
        f"{number}. {' '.join(task.world.scenario.text.split())[:SHOWN_CHARS]}\n"
        f"   tools: {', '.join(action.name for action in task.world.actions) or 'none'}"
        for number, task in enumerate(tasks, 1)
    )
