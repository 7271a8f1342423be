"""A labelled set: the same tasks, each with its skill, its level, or both.

In: a request, a catalog, and a desk where a teacher finds the skills. Out: an artifact
``task_set:...`` whose tasks have the ids of the set that it is made of, so that attempts at that
set count for this one. SQL groups by ``tasks.slots ->> 'skill'`` and ``'level'``.
"""

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tutti.storage import Catalog, content_hash, held
from tutti.tasks.synthesis.domains import (
    Domain,
    DomainTask,
    domain_folders,
    read_domain_folder,
)
from tutti.tasks.synthesis.generate import find_task_set
from tutti.tasks.synthesis.making.band import measured_rates
from tutti.tasks.synthesis.making.collected import Collected
from tutti.tasks.synthesis.making.instance import write_instance
from tutti.tasks.synthesis.making.make import work_folder
from tutti.tasks.synthesis.making.teachers import TeacherPool, open_teachers
from tutti.tasks.synthesis.preferences.making import set_folder
from tutti.tasks.synthesis.skills.by_attributes import check_attributes, skills_by_attributes
from tutti.tasks.synthesis.skills.by_teacher import PROMPTS, skills_by_teacher
from tutti.tasks.synthesis.skills.found import FoundSkills
from tutti.tasks.synthesis.skills.levels import level_of
from tutti.tasks.synthesis.skills.request import LabelRequest
from tutti.tasks.synthesis.teacher import read_prompts
from tutti.tasks.task_sets import Judged

Instance = tuple[Domain, Sequence[DomainTask]]
Labels = Mapping[str, Mapping[str, str]]
"""By task id."""
NO_DESK = TeacherPool((), ())
VERSION = "1"


async def make_labelled_set(
    request: LabelRequest, catalog: Catalog, desk: TeacherPool = NO_DESK
) -> str:
    """Make the set; returns its id. The same labels give the same set.

    Raises UsageError for a set that is no domain's or an unknown attribute; TeacherFailed,
    BudgetSpent (what was paid for is kept), StoreError.
    """
    folders = domain_folders(set_folder(catalog, request.task_set))
    instances = [(domain, list(tasks)) for domain, tasks in map(read_domain_folder, folders)]
    name = content_hash([VERSION, request.as_asked, _prompts()])
    # Levels follow from the attempts on record, which may be more by now.
    known = None if request.difficulty else find_task_set(catalog, name)
    if known is not None:
        return known
    work = work_folder(catalog, name)
    with held(catalog, f"labelling {name}"):
        skills = await _skills(request, instances, desk, work / "teacher")
        levels = _levels(request, instances, catalog)
        labels = {
            task.task_id: _labels_of(task, skills, levels)
            for _, tasks in instances
            for task in tasks
        }
        collected = Collected(len(labels), work / "set")
        shutil.rmtree(work / "set", ignore_errors=True)
        for number, (domain, tasks) in enumerate(instances):
            _take(domain, tasks, labels, work / f"labelled-{number:04}", number, collected)
        named = _detail(request, instances[0][0], skills, levels)
        named["request"] = None if request.difficulty else name
        content = {"labels": content_hash(labels)}
        made = collected.enter(named, catalog, [request.task_set], content)
        shutil.rmtree(work)
    return made


async def _skills(
    request: LabelRequest, instances: Sequence[Instance], desk: TeacherPool, work: Path
) -> FoundSkills | None:
    tasks = [(domain.name, task) for domain, each in instances for task in each]
    if request.teacher:
        async with open_teachers(desk, work) as ((teacher,), _):
            every = [task for _, task in tasks]
            return await skills_by_teacher(teacher, every, request.sample, request.most_skills)
    if not request.skills:
        return None
    check_attributes(tasks, request.skills)
    return skills_by_attributes(tasks, request.skills, request.least_tasks)


def _levels(request: LabelRequest, instances: Sequence[Instance], catalog: Catalog) -> Labels:
    if not request.difficulty:
        return {}
    ids = [task.task_id for _, tasks in instances for task in tasks]
    rates = measured_rates(ids, request.models, catalog)
    return {
        each: level_of(rates.get(each), request.hard_to, request.easy_from).labels for each in ids
    }


def _labels_of(task: DomainTask, skills: FoundSkills | None, levels: Labels) -> dict[str, str]:
    own = {} if skills is None else {"skill": skills.of_task[task.task_id]}
    return {**task.labels, **own, **levels.get(task.task_id, {})}


def _take(
    domain: Domain,
    tasks: Sequence[DomainTask],
    labels: Labels,
    out: Path,
    number: int,
    collected: Collected,
) -> None:
    shutil.rmtree(out, ignore_errors=True)
    own = [task.model_copy(update={"labels": dict(labels[task.task_id])}) for task in tasks]
    write_instance(out, domain, own, [Judged(each) for each in own])
    collected.take(out, number)


def _detail(
    request: LabelRequest, domain: Domain, skills: FoundSkills | None, levels: Labels
) -> dict[str, Any]:
    named: dict[str, Any] = {"name": domain.name, "asked": request.as_asked}
    if skills is not None:
        named |= {"skills": skills.sizes, "merged": dict(skills.merged)}
        named |= {"about_skills": dict(skills.about), "unassigned": dict(skills.reasons)}
    if request.teacher:
        named["prompts"] = _prompts()
    if levels:
        named["levels"] = dict(Counter(each["level"] for each in levels.values()))
    return named


def _prompts() -> list[dict[str, str]]:
    return [each.lineage for each in read_prompts(PROMPTS).values()]
