"""``tutti derive``: of a task set, one with preferences or labels; of the store, profiles.

In: the verb's flags. Out: the new set's id, its counts and what each gate dropped; or the files of
a profile.
"""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from tutti.cli.failures import guarded
from tutti.cli.flow import run_flow
from tutti.cli.options import AsJson, ModelsFile
from tutti.errors import UsageError

BY_TEACHER = "teacher"
PreferencesFlag = Annotated[
    bool, typer.Option("--preferences", help="an instruction, tools and prices for each task")
]
SkillsFlag = Annotated[
    str,
    typer.Option(help="label tasks by attributes (template,difficulty.hops), or by `teacher`"),
]
DifficultyFlag = Annotated[
    bool, typer.Option("--difficulty", help="label tasks by their pass rates in the store")
]
ProfileFlag = Annotated[
    Path | None,
    typer.Option(help="write what was measured of models, experts and tools into this folder"),
]
SeedFlag = Annotated[int | None, typer.Option(help="of --preferences: decides what is drawn (0)")]
AgentFlag = Annotated[
    str, typer.Option(help="an agent file whose experts are drawn (--preferences) or described")
]
MeasuredFlag = Annotated[
    Path | None,
    typer.Option(help="of --preferences: a profile.yaml, for texts of the tools"),
]
TeacherFlag = Annotated[str, typer.Option(help="a model of the registry that writes or labels")]
CheckerFlag = Annotated[
    str, typer.Option(help="of --preferences with --teacher: the model that checks its pairs")
]
PairsFlag = Annotated[int | None, typer.Option(help="of --preferences: pairs asked for (40)")]
ModelFlag = Annotated[
    list[str] | None, typer.Option(help="of --difficulty: whose attempts count (everybody's)")
]
UsdFlag = Annotated[float | None, typer.Option(help="most that the teachers may cost, USD")]
CallsFlag = Annotated[int | None, typer.Option(help="most calls of the teachers")]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(derive)


def derive(
    task_set: Annotated[
        str, typer.Argument(help="task_set:ID of a domain's tasks; for --profile optional")
    ] = "",
    preferences: PreferencesFlag = False,
    skills: SkillsFlag = "",
    difficulty: DifficultyFlag = False,
    profile: ProfileFlag = None,
    seed: SeedFlag = None,
    agent: AgentFlag = "",
    measured: MeasuredFlag = None,
    teacher: TeacherFlag = "",
    checker: CheckerFlag = "",
    pairs: PairsFlag = None,
    model: ModelFlag = None,
    usd: UsdFlag = None,
    calls: CallsFlag = None,
    *,
    models: ModelsFile,
    as_json: AsJson = False,
) -> None:
    """Derive a task set with preferences, skills or difficulty, or profiles of measured runs."""
    flags: dict[str, Any] = {"seed": seed, "agent": agent, "measured": measured, "teacher": teacher}
    flags |= {"checker": checker, "pairs": pairs, "models": tuple(model or ())}
    flags |= {"usd": usd, "calls": calls, "task_set": task_set}
    given = {name: value for name, value in flags.items() if value not in (None, "", ())}

    def work() -> None:
        chosen = [bool(preferences), bool(skills or difficulty), profile is not None]
        if sum(chosen) != 1:
            raise UsageError(
                "give --preferences, or --skills and --difficulty, or --profile FOLDER"
            )
        if profile is not None:
            typer.echo(_profiled(given | {"folder": profile}, models, as_json))
        elif preferences:
            typer.echo(_derived(given, "preferences", models, as_json))
        else:
            asked = given | {"difficulty": difficulty} | _skills(skills, teacher)
            typer.echo(_derived(asked, "labels", models, as_json))

    guarded(work)


def _skills(skills: str, teacher: str) -> dict[str, Any]:
    """Attributes, or a teacher."""
    if skills == BY_TEACHER:
        if not teacher:
            raise UsageError("--skills teacher: name the model with --teacher")
        return {}
    if teacher:
        raise UsageError("--teacher: labels with --skills teacher")
    return {"skills": tuple(name.strip() for name in skills.split(",") if name.strip())}


def _derived(asked: dict[str, Any], kind: str, models: Path, as_json: bool) -> str:
    from tutti.cli.synth_documents import shown_set
    from tutti.flows.derive import DeriveRequest
    from tutti.flows.synthesize import synthesize_tasks
    from tutti.tasks.synthesis import TaskRequest
    from tutti.tasks.synthesis.preferences import PreferenceRequest
    from tutti.tasks.synthesis.skills import LabelRequest

    if not asked.get("task_set"):
        raise UsageError("name the task set, as `tutti derive task_set:ID --preferences`")
    of_kind = PreferenceRequest if kind == "preferences" else LabelRequest
    request = DeriveRequest.model_validate({kind: of_kind.model_validate(asked)})
    requests = (TaskRequest(), None, None, models, None, request)
    return shown_set(run_flow(synthesize_tasks, False, as_json, *requests), as_json)


def _profiled(asked: dict[str, Any], models: Path, as_json: bool) -> str:
    from tutti.flows.derive import write_profiles
    from tutti.tasks.synthesis.preferences import ProfileRequest

    files = asyncio.run(write_profiles(ProfileRequest.model_validate(asked), models))
    return json.dumps([str(each) for each in files]) if as_json else "\n".join(map(str, files))
