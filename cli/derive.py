"""``tutti derive``: task sets with preferences or labels, or profiles of the store's runs.

In: the verb's flags. Out: the new set's id, its counts and the drops of each gate; or the files of
a profile.
"""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tutti.cli.base.verbs import AsJson, ModelsFile, given, verb
from tutti.cli.synth import make_shown
from tutti.errors import UsageError
from tutti.tasks.synthesis import preferences as by_preference
from tutti.tasks.synthesis import skills as by_label

BY_TEACHER = "teacher"


@dataclass(frozen=True, kw_only=True)
class DeriveFlags:
    """The flags of the derivation; each has the name of a field of the requests."""

    seed: Annotated[
        int | None, typer.Option(help="of --preferences: decides what is drawn (0)")
    ] = None
    agent: Annotated[
        str, typer.Option(help="an agent file whose experts are drawn (--preferences) or described")
    ] = ""
    measured: Annotated[
        Path | None,
        typer.Option(help="of --preferences: a profile.yaml, for texts of the tools"),
    ] = None
    teacher: Annotated[str, typer.Option(help="a model of the registry that writes or labels")] = ""
    checker: Annotated[
        str, typer.Option(help="of --preferences with --teacher: the model that checks its pairs")
    ] = ""
    pairs: Annotated[int | None, typer.Option(help="of --preferences: pairs asked for (40)")] = None
    models: Annotated[
        list[str] | None,
        typer.Option("--model", help="of --difficulty: whose attempts count (everybody's)"),
    ] = None
    usd: Annotated[float | None, typer.Option(help="most that the teachers may cost, USD")] = None
    calls: Annotated[int | None, typer.Option(help="most calls of the teachers")] = None


@verb
def derive(
    task_set: Annotated[
        str, typer.Argument(help="task_set:ID of a domain's tasks; for --profile optional")
    ] = "",
    preferences: Annotated[
        bool, typer.Option("--preferences", help="an instruction, tools and prices for each task")
    ] = False,
    skills: Annotated[
        str,
        typer.Option(help="label tasks by attributes (template,difficulty.hops), or by `teacher`"),
    ] = "",
    difficulty: Annotated[
        bool, typer.Option("--difficulty", help="label tasks by their pass rates in the store")
    ] = False,
    profile: Annotated[
        Path | None,
        typer.Option(help="write what was measured of models, experts and tools into this folder"),
    ] = None,
    *,
    flags: DeriveFlags,
    registry: ModelsFile,
    as_json: AsJson = False,
) -> None:
    """Derive a task set with preferences, skills or difficulty, or profiles of measured runs."""
    asked = given(flags) | ({"task_set": task_set} if task_set else {})
    chosen = [bool(preferences), bool(skills or difficulty), profile is not None]
    if sum(chosen) != 1:
        raise UsageError("give --preferences, or --skills and --difficulty, or --profile FOLDER")
    if profile is not None:
        typer.echo(_profiled(asked | {"folder": profile}, registry, as_json))
    elif preferences:
        typer.echo(_derived(asked, "preferences", registry, as_json))
    else:
        asked |= {"difficulty": difficulty} | _skills(skills, flags.teacher)
        typer.echo(_derived(asked, "labels", registry, as_json))


def _skills(skills: str, teacher: str) -> dict[str, Any]:
    if skills == BY_TEACHER:
        if not teacher:
            raise UsageError("--skills teacher: name the model with --teacher")
        return {}
    if teacher:
        raise UsageError("--teacher: labels with --skills teacher")
    return {"skills": tuple(name.strip() for name in skills.split(",") if name.strip())}


def _derived(asked: dict[str, Any], kind: str, models: Path, as_json: bool) -> str:
    if not asked.get("task_set"):
        raise UsageError("name the task set, as `tutti derive task_set:ID --preferences`")
    of_kind = by_preference.PreferenceRequest if kind == "preferences" else by_label.LabelRequest
    return make_shown(of_kind.model_validate(asked), models, as_json)


def _profiled(asked: dict[str, Any], models: Path, as_json: bool) -> str:
    from tutti.flows.profiles import write_profiles

    files = asyncio.run(write_profiles(by_preference.ProfileRequest.model_validate(asked), models))
    return json.dumps([str(each) for each in files]) if as_json else "\n".join(map(str, files))
