"""What a labelled set is asked for by."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tutti.tasks.synthesis.skills.levels import EASY_FROM, HARD_TO

BUDGET_FIELDS = frozenset({"usd", "calls", "concurrency"})


class LabelRequest(BaseModel):
    """The parameters of a labelled set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
    usd: float | None = Field(None, gt=0, description="most that one run may cost, USD")
    calls: int | None = Field(None, ge=1, description="most calls of one run")
    concurrency: int = Field(8, ge=1, le=256, description="calls at once")

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.skills and self.teacher:
            raise ValueError("skills, teacher: give attributes or a teacher, not both")
        if not (self.skills or self.teacher or self.difficulty):
            raise ValueError("skills, teacher, difficulty: give one of them")
        if self.hard_to > self.easy_from:
            raise ValueError(f"hard_to: {self.hard_to:g} is above easy_from ({self.easy_from:g})")
        return self

    @property
    def as_asked(self) -> dict[str, Any]:
        """All that decides what is made, apart from the store's attempts."""
        return self.model_dump(mode="json", exclude=set(BUDGET_FIELDS))
