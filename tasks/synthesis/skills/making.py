"""A source of labelled tasks: those of a set, each with its skill, its level, or both.

Tasks keep their ids, so that attempts at the first set count for this one. A level is derived from
the pass rate of the attempts, if its whole interval lies in one of three ranges.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from tutti.storage import Catalog, content_hash
from tutti.tasks.scoring.statistics import wilson
from tutti.tasks.synthesis.domains import DomainTask, changed_task, read_domain_folder
from tutti.tasks.synthesis.making.band import Rate, measured_rates
from tutti.tasks.synthesis.making.domain_parts import DomainParts, stored_folders, write_domain_part
from tutti.tasks.synthesis.making.teachers import TeacherPool, open_teachers
from tutti.tasks.synthesis.skills.by_attributes import (
    FoundSkills,
    check_attributes,
    skills_by_attributes,
)
from tutti.tasks.synthesis.skills.by_teacher import PROMPTS, skills_by_teacher
from tutti.tasks.synthesis.teacher import BudgetedRequest, read_prompts
from tutti.tasks.task_sets import Judged, SetInMaking

Level = Literal["easy", "medium", "hard", "unknown"]
HARD_TO, EASY_FROM = 1 / 3, 2 / 3
"""Of the pass rate: eight attempts, all right or all wrong, suffice to say easy or hard."""


@dataclass(frozen=True)
class MeasuredLevel:
    """A task's level."""

    level: Level
    rate: Rate
    low: float
    high: float

    @property
    def labels(self) -> Mapping[str, str]:
        """The level as labels of a task."""
        return {
            "level": self.level,
            "attempts": str(self.rate.n),
            "solved": str(self.rate.solved),
            "rate_low": f"{self.low:.3f}",
            "rate_high": f"{self.high:.3f}",
        }


def level_of(
    rate: Rate | None, hard_to: float = HARD_TO, easy_from: float = EASY_FROM
) -> MeasuredLevel:
    """Return the level of a task with these attempts: hard for a pass rate up to `hard_to`, easy
    from `easy_from`. Attempts at one task have different seeds, so they count as independent."""
    found = rate or Rate(0, 0)
    low, high = wilson(found.solved, found.n) or (0.0, 1.0)
    level: Level = "unknown"
    if high <= hard_to:
        level = "hard"
    elif low >= easy_from:
        level = "easy"
    elif hard_to <= low and high <= easy_from:
        level = "medium"
    return MeasuredLevel(level, found, low, high)


class LabelRequest(BudgetedRequest):
    """The parameters of a labelled set."""

    source: Literal["labels"] = Field("labels", description="skills and levels of stored tasks")
    task_set: str = Field(description="the set of domain tasks, by its id")
    skills: tuple[str, ...] = Field(
        (), description="attributes whose values are the skills: template, difficulty.hops ..."
    )
    teacher: str = Field("", description="a model that finds the skills, in place of attributes")
    difficulty: bool = Field(False, description="label tasks by their pass rates in the store")
    models: tuple[str, ...] = Field((), description="whose attempts count; empty: everybody's")
    hard_to: float = Field(HARD_TO, gt=0, lt=1, description="largest pass rate of a hard task")
    easy_from: float = Field(EASY_FROM, gt=0, lt=1, description="least pass rate of an easy task")
    least_tasks: int = Field(5, ge=1, description="attributes: smaller skills are merged")
    sample: int = Field(60, ge=1, le=2_000, description="teacher: tasks that it labels")
    most_skills: int = Field(12, ge=2, le=200, description="teacher: most skills")

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.skills and self.teacher:
            raise ValueError("skills, teacher: give attributes or a teacher, not both")
        if not (self.skills or self.teacher or self.difficulty):
            raise ValueError("skills, teacher, difficulty: give one of them")
        if self.hard_to > self.easy_from:
            raise ValueError(f"hard_to: {self.hard_to:g} is above easy_from ({self.easy_from:g})")
        return self


Labels = Mapping[str, Mapping[str, str]]
"""By task id."""
VERSION = "1"


class LabelSource(DomainParts):
    """All tasks of a set with their labels; the same labels give the same set. `parts` may raise
    UsageError for an unknown attribute, TeacherFailed, and BudgetSpent (paid answers stay
    stored)."""

    def __init__(
        self, request: LabelRequest, catalog: Catalog, teachers: TeacherPool | None = None
    ) -> None:
        """`teachers`: the models that derive skills. Raises UsageError for a set without domain."""
        self.request, self.teachers, self._home = request, teachers, catalog.home
        self.is_paid = teachers is not None
        self.parents = [request.task_set]
        folders = stored_folders(catalog, request.task_set)
        read = map(read_domain_folder, folders)
        self._instances = [(domain, list(tasks)) for domain, tasks in read]
        self.name = self._instances[0][0].name
        self.work_name = content_hash([VERSION, request.as_asked, _prompts()])
        # Levels follow from the attempts on record, which may be more by now.
        self.request_hash = None if request.difficulty else self.work_name
        self._skills: FoundSkills | None = None
        self._levels: Labels = {}

    async def parts(self, work: Path, made: SetInMaking) -> AsyncGenerator[Path, None]:
        self._skills, self._levels = await self._found(work / "teacher"), self._pass_levels()
        for number, (domain, tasks) in enumerate(self._instances):
            labelled = [changed_task(each, attributes=self._labels(each)) for each in tasks]
            judged = [Judged(each) for each in labelled]
            yield write_domain_part(work / f"labelled-{number:04}", domain, judged)

    async def _found(self, work: Path) -> FoundSkills | None:
        request = self.request
        tasks = [(domain.name, task) for domain, each in self._instances for task in each]
        if self.teachers is not None:
            async with open_teachers(self.teachers, work) as ((teacher,), _):
                every = [task for _, task in tasks]
                return await skills_by_teacher(teacher, every, request.sample, request.most_skills)
        if not request.skills:
            return None
        check_attributes(tasks, request.skills)
        return skills_by_attributes(tasks, request.skills, request.least_tasks)

    def _pass_levels(self) -> Labels:
        request = self.request
        if not request.difficulty:
            return {}
        ids = [task.task_id for _, tasks in self._instances for task in tasks]
        rates = measured_rates(ids, request.models, self._home)
        ends = request.hard_to, request.easy_from
        return {each: level_of(rates.get(each), *ends).labels for each in ids}

    def _labels(self, task: DomainTask) -> dict[str, str]:
        own = {} if self._skills is None else {"skill": self._skills.of_task[task.task_id]}
        return {**task.attributes, **own, **self._levels.get(task.task_id, {})}

    def write(self, made: SetInMaking, folder: Path) -> Any:
        """Write the set as every domain's set; the id also depends on the labels."""
        tasks = [task for _, each in self._instances for task in each]
        labels = {task.task_id: self._labels(task) for task in tasks}
        return {**super().write(made, folder), "labels": content_hash(labels)}

    def detail(self, made: SetInMaking) -> dict[str, Any]:
        found: dict[str, Any] = {"name": self.name, "asked": self.request.as_asked}
        if (skills := self._skills) is not None:
            found |= {"skills": skills.sizes, "merged": dict(skills.merged)}
            found |= {"about_skills": dict(skills.about), "unassigned": dict(skills.reasons)}
        if self.teachers is not None:
            found["prompts"] = _prompts()
        if self._levels:
            found["levels"] = dict(Counter(each["level"] for each in self._levels.values()))
        return found


def _prompts() -> list[dict[str, str]]:
    return [each.lineage for each in read_prompts(PROMPTS).values()]
