"""Profiles of measured runs by model, expert and tool: `tutti derive --profile`."""

from pathlib import Path

from tutti.flows.sources import serve_teachers
from tutti.tasks.platform.progress import Run, open_run
from tutti.tasks.synthesis import TeacherPool, open_teachers
from tutti.tasks.synthesis.preferences import (
    Profile,
    ProfileRequest,
    describe_profile,
    measure_profile,
    write_profile,
)


async def write_profiles(request: ProfileRequest, models: Path) -> list[Path]:
    """Measure, describe and write a profile; return its files."""
    with open_run("profile", request.model_dump(mode="json")) as run:
        profile = measure_profile(run.catalog.home, request.task_set or None)
        async with serve_teachers(request, models, run.catalog, run.log) as teachers:
            if teachers is not None:
                profile = await _described(profile, teachers, request.folder, run)
        return write_profile(profile, request.folder, request.agent)


async def _described(profile: Profile, teachers: TeacherPool, folder: Path, run: Run) -> Profile:
    async with open_teachers(teachers, folder / "teacher") as ((teacher,), meter):
        described, kept = await describe_profile(profile, teacher)
    run.log.console.print(f"teacher: {meter.text}")
    for subject, why in kept.items():
        run.log.console.print(f"{subject} keeps the rule's text: {why}", markup=False)
    return described
