"""What is made of a task set and of the store: preferences, labels, profiles.

The flow `synthesize-tasks` calls `derive_set`; the verb `tutti derive` both.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tutti.flows.teaching import TeacherCalls, serve_teachers
from tutti.storage import content_hash
from tutti.tasks.progress import StageProgress, stage
from tutti.tasks.runs import Run, open_run
from tutti.tasks.synthesis import TeacherPool, open_teachers
from tutti.tasks.synthesis.preferences import (
    PreferenceRequest,
    Profile,
    ProfileRequest,
    describe_profile,
    make_preference_set,
    make_taught_preference_set,
    measure_profile,
    write_profile,
)
from tutti.tasks.synthesis.skills import LabelRequest, make_labelled_set
from tutti.tasks.synthesis.teacher import TeacherBudget

Budgeted = PreferenceRequest | LabelRequest | ProfileRequest


class DeriveRequest(BaseModel):
    """What to make of a task set: one of both."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    preferences: PreferenceRequest | None = Field(
        None, description="an instruction, weights, tools and prices for each task"
    )
    labels: LabelRequest | None = Field(None, description="skills and levels of the tasks")

    @model_validator(mode="after")
    def _one(self) -> "DeriveRequest":
        if (self.preferences is None) == (self.labels is None):
            raise ValueError("give either `preferences` or `labels`")
        return self


async def derive_set(request: DeriveRequest, models: Path, run: Run) -> str:
    """Make the set that is asked for; returns its id."""
    if request.preferences is not None:
        return await derive_preferences(run.log, request.preferences, models, run)
    assert request.labels is not None, "one of them is given"
    return await derive_labels(run.log, request.labels, models, run)


@stage(name="preferences")
async def derive_preferences(
    _: StageProgress, request: PreferenceRequest, models: Path, run: Run
) -> str:
    """Draw preferences, tools and prices, or ask a teacher for the preferences."""
    if not request.teacher:
        return await make_preference_set(request, run.catalog)
    async with _desk(request, [request.teacher, request.checker], models, run) as desk:
        made, spent = await make_taught_preference_set(request, desk, run.catalog)
    run.log.console.print(f"teacher: {spent or 'nothing asked: the set was there'}")
    return made


@stage(name="labels")
async def derive_labels(_: StageProgress, request: LabelRequest, models: Path, run: Run) -> str:
    """Label the tasks with skills and levels."""
    if not request.teacher:
        return await make_labelled_set(request, run.catalog)
    async with _desk(request, [request.teacher], models, run) as desk:
        return await make_labelled_set(request, run.catalog, desk)


async def write_profiles(request: ProfileRequest, models: Path) -> list[Path]:
    """Measure, describe and write a profile; returns its files."""
    with open_run("profile", request.model_dump(mode="json")) as run:
        profile = measure_profile(run.catalog.home, request.task_set or None)
        if request.teacher:
            profile = await _described(profile, request, models, run)
        return write_profile(profile, request.folder, request.agent)


async def _described(profile: Profile, request: ProfileRequest, models: Path, run: Run) -> Profile:
    async with _desk(request, [request.teacher], models, run) as desk:
        async with open_teachers(desk, request.folder / "teacher") as ((teacher,), meter):
            described, kept = await describe_profile(profile, teacher)
    run.log.console.print(f"teacher: {meter.text}")
    for subject, why in kept.items():
        run.log.console.print(f"{subject} keeps the rule's text: {why}", markup=False)
    return described


@contextlib.asynccontextmanager
async def _desk(
    request: Budgeted, names: Sequence[str], models: Path, run: Run
) -> AsyncIterator[TeacherPool]:
    """The named models behind a gateway, and what they may spend."""
    calls = TeacherCalls(content_hash(request.model_dump(mode="json"))[:16])
    async with serve_teachers(names, models, run.catalog, run.log, calls) as served:
        yield TeacherPool(
            [endpoint for endpoint, _ in served],
            [prices for _, prices in served],
            TeacherBudget(request.usd, request.calls),
            getattr(request, "concurrency", 8),
            getattr(request, "seed", 0),
        )
