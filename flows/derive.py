"""What is made of a task set and of the store: preferences, labels, profiles.

The flow `synthesize-tasks` calls `derive_set`; the verb `tutti derive` both.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field, model_validator

from tutti.flows.teaching import NOT_ASKED, TeacherCalls, serve_teachers
from tutti.storage import content_hash
from tutti.tasks.config import Strict
from tutti.tasks.progress import StageProgress, stage
from tutti.tasks.runs import Run, open_run
from tutti.tasks.synthesis import TeacherPool, open_teachers
from tutti.tasks.synthesis.preferences import (
    PreferenceRequest,
    PreferenceSource,
    Profile,
    ProfileRequest,
    describe_profile,
    measure_profile,
    write_profile,
)
from tutti.tasks.synthesis.skills import LabelRequest, LabelSource
from tutti.tasks.synthesis.teacher import TeacherBudget, TeacherSampling
from tutti.tasks.task_sets import make_set

Budgeted = PreferenceRequest | LabelRequest | ProfileRequest


class DeriveRequest(Strict):
    """What to make of a task set: one of both."""

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
    progress: StageProgress, request: PreferenceRequest, models: Path, run: Run
) -> str:
    """Draw preferences, tools and prices, or ask a teacher for the preferences."""
    names = [request.teacher, request.checker] if request.teacher else []
    async with _teachers(request, names, models, run) as teachers:
        source = PreferenceSource(request, run.catalog, teachers)
        made = await make_set(source, run.catalog, progress.show)
    if names:
        run.log.console.print(f"teacher: {source.spent or NOT_ASKED}")
    return made


@stage(name="labels")
async def derive_labels(
    progress: StageProgress, request: LabelRequest, models: Path, run: Run
) -> str:
    """Label the tasks with skills and levels."""
    names = [request.teacher] if request.teacher else []
    async with _teachers(request, names, models, run) as teachers:
        source = LabelSource(request, run.catalog, teachers)
        return await make_set(source, run.catalog, progress.show)


async def write_profiles(request: ProfileRequest, models: Path) -> list[Path]:
    """Measure, describe and write a profile; returns its files."""
    with open_run("profile", request.model_dump(mode="json")) as run:
        profile = measure_profile(run.catalog.home, request.task_set or None)
        if request.teacher:
            profile = await _described(profile, request, models, run)
        return write_profile(profile, request.folder, request.agent)


async def _described(profile: Profile, request: ProfileRequest, models: Path, run: Run) -> Profile:
    async with _teachers(request, [request.teacher], models, run) as teachers:
        assert teachers is not None, "one is named"
        async with open_teachers(teachers, request.folder / "teacher") as ((teacher,), meter):
            described, kept = await describe_profile(profile, teacher)
    run.log.console.print(f"teacher: {meter.text}")
    for subject, why in kept.items():
        run.log.console.print(f"{subject} keeps the rule's text: {why}", markup=False)
    return described


@contextlib.asynccontextmanager
async def _teachers(
    request: Budgeted, names: Sequence[str], models: Path, run: Run
) -> AsyncIterator[TeacherPool | None]:
    """The named models behind a gateway, and what they may spend; None where none is named."""
    if not names:
        yield None
        return
    calls = TeacherCalls(content_hash(request.model_dump(mode="json"))[:16])
    async with serve_teachers(names, models, run.catalog, run.log, calls) as served:
        yield replace(
            served,
            budget=TeacherBudget(request.usd, request.calls),
            concurrency=getattr(request, "concurrency", 8),
            sampling=TeacherSampling(seed=getattr(request, "seed", 0)),
        )
