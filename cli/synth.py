"""``tutti synth``: task sets, over the standard library or of a domain.

In: the verb's flags. Out: the task set's id, its counts and what each gate dropped.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tutti import storage
from tutti.cli.flow import run_flow
from tutti.cli.keeping import TaskSetFilter
from tutti.cli.synth_documents import about_documents, shown_set
from tutti.cli.verbs import AsJson, ModelsFile, given, verb
from tutti.errors import UsageError
from tutti.tasks import serving, synthesis
from tutti.tasks.synthesis import teacher as teachers

STDLIB = "stdlib"
NOT_OF_STDLIB = "stdlib has no such flag; name a domain, as `tutti synth retail`"
OF_STDLIB = "stdlib only"
OF_DOMAINS = "a domain's only"


@dataclass(frozen=True, kw_only=True)
class SizeFlags:
    """The flags of how much is made."""

    size: Annotated[
        int | None, typer.Option(help=f"tasks that pass every gate (200; {OF_DOMAINS})")
    ] = None
    knob: Annotated[
        list[str] | None, typer.Option(help=f"NAME=NUMBER, as --list shows ({OF_DOMAINS})")
    ] = None
    workers: Annotated[
        int | None, typer.Option(help=f"processes; the set is the same (1; {OF_DOMAINS})")
    ] = None


@dataclass(frozen=True, kw_only=True)
class LibraryFlags:
    """The flags of `stdlib`; each has the name of a field of `TaskRequest`."""

    families: Annotated[
        str, typer.Option(help=f"families, separated by commas (all; {OF_STDLIB})")
    ] = ""
    train_per_family: Annotated[
        int | None,
        typer.Option("--train", help=f"training candidates per family (40; {OF_STDLIB})"),
    ] = None
    test_per_family: Annotated[
        int | None, typer.Option("--test", help=f"test candidates per family (16; {OF_STDLIB})")
    ] = None


@dataclass(frozen=True, kw_only=True)
class KeepFlags:
    """The flags of a stored set."""

    pass_rate: Annotated[
        str,
        typer.Option(help="LOW:HIGH: of a measured set (task_set:ID), the tasks with this pass@k"),
    ] = ""
    agreement: Annotated[
        float | None,
        typer.Option(
            help="of a measured set, the tasks with this share of equal, golden solutions"
        ),
    ] = None
    judge: Annotated[
        str, typer.Option(help="of a set (task_set:ID), the tasks that this model finds consistent")
    ] = ""
    k: Annotated[
        int | None,
        typer.Option("--k", help="attempts that --pass-rate (1) and --agreement (4) need"),
    ] = None
    model: Annotated[
        list[str] | None, typer.Option(help="whose attempts count for them (everybody's)")
    ] = None


@dataclass(frozen=True, kw_only=True)
class TeacherFlags:
    """The flags of a teacher."""

    teacher: Annotated[
        str,
        typer.Option(help="this model of the registry asks; needs --topic or --from"),
    ] = ""
    topic: Annotated[str, typer.Option(help="what the teacher's domain is about")] = ""
    usd: Annotated[
        float | None, typer.Option(help="most that this run of teacher or judge may cost, USD")
    ] = None
    calls: Annotated[
        int | None, typer.Option(help="most calls of this run of teacher or judge")
    ] = None


@verb
def synth(
    domain: Annotated[str, typer.Argument(help="what to make; --list shows all")] = STDLIB,
    seed: Annotated[int, typer.Option(help="decides what is asked about")] = 0,
    plan: Annotated[
        bool, typer.Option("--plan", help="say what it will take, from a sample, and make nothing")
    ] = False,
    from_index: Annotated[
        str, typer.Option("--from", help="ask about the documents of this index, by id or folder")
    ] = "",
    list_domains: Annotated[
        bool, typer.Option("--list", help="list the domains and their knobs")
    ] = False,
    *,
    amount: SizeFlags,
    of_library: LibraryFlags,
    keep: KeepFlags,
    teaching: TeacherFlags,
    models: ModelsFile,
    as_json: AsJson = False,
) -> None:
    """Synthesize a task set: candidates are shown to gates, and each reject has its reason."""
    own, library, teacher = given(amount), given(of_library), given(teaching)
    if "knob" in own:
        own["knobs"] = _knobs(own.pop("knob"))
    if "families" in library:
        library["families"] = _names(of_library.families)
    limits = {name: teacher[name] for name in ("usd", "calls") if name in teacher}
    if list_domains:
        typer.echo(_listed(as_json))
    elif from_index:
        _refuse_beside_documents(domain, library, own)
        typer.echo(
            about_documents(
                {"index": from_index, "seed": seed} | own | teacher, models, plan, as_json
            )
        )
    elif teaching.teacher or teaching.topic:
        _refuse(library, "a teacher's domain has no families; --size says how many intents")
        asked = teacher | {"seed": seed} | ({"intents": amount.size} if "size" in own else {})
        typer.echo(_by_teacher(asked, models, plan, as_json))
    elif (
        keep.pass_rate or keep.agreement is not None or keep.judge or domain.startswith("task_set:")
    ):
        _refuse(own | library, "a stored set's tasks are kept, not made")
        flags = {"k": keep.k, "models": tuple(keep.model or ())} | limits
        made = TaskSetFilter(domain, keep.pass_rate, keep.agreement, keep.judge, flags).made(models)
        typer.echo(shown_set(made, as_json))
    elif domain == STDLIB:
        _refuse(own | ({"plan": True} if plan else {}), NOT_OF_STDLIB)
        typer.echo(_made(library | {"seed": seed}, None, as_json))
    else:
        _refuse(library, f"{domain} has no families; --size says how many tasks")
        asked = own | {"seed": seed, "domain": domain}
        typer.echo(_planned(asked, as_json) if plan else _made({}, asked, as_json))


def _refuse_beside_documents(domain: str, library: dict[str, Any], given: dict[str, Any]) -> None:
    """Raises UsageError for what --from has no use for."""
    _refuse(library, "questions about documents have no families; --size says how many")
    _refuse({name: value for name, value in given.items() if name != "size"}, OF_DOMAINS)
    if domain != STDLIB:
        raise UsageError(f"{domain}: --from makes no domain; leave it out")


def _made(library: dict[str, Any], domain: dict[str, Any] | None, as_json: bool) -> str:
    from tutti.flows.synthesize import synthesize_tasks

    request = None if domain is None else synthesis.DomainRequest.model_validate(domain)
    asked = synthesis.TaskRequest.model_validate(library)
    return shown_set(run_flow(synthesize_tasks, False, as_json, asked, request), as_json)


def _by_teacher(asked: dict[str, Any], models: Path, plan: bool, as_json: bool) -> str:
    from tutti.flows.synthesize import synthesize_tasks

    if not {"teacher", "topic"} <= asked.keys():
        raise UsageError("--teacher and --topic: give both, as --teacher big --topic 'a library'")
    request = synthesis.TeacherSetRequest.model_validate(asked)
    prices = teachers.prices_of(serving.pick_model(models, request.teacher))
    found = teachers.plan_teacher(request.chain, prices, request.concurrency)
    if plan:
        return json.dumps(found.as_rows) if as_json else found.text
    typer.echo(found.text, err=True)
    made = run_flow(
        synthesize_tasks, False, as_json, synthesis.TaskRequest(), None, request, models
    )
    return shown_set(made, as_json)


def _planned(asked: dict[str, Any], as_json: bool) -> str:
    request, home = synthesis.DomainRequest.model_validate(asked), storage.current_home()
    known = (
        synthesis.benchmark_questions(home) if request.contamination and home.root.is_dir() else []
    )
    found = asyncio.run(synthesis.plan_domain_set(request, known))
    return json.dumps(asdict(found)) if as_json else "\n".join(found.lines)


def _listed(as_json: bool) -> str:
    if as_json:
        return json.dumps(
            {
                name: {
                    "about": program.about,
                    "knobs": {knob: vars(each) for knob, each in program.knobs.items()},
                }
                for name, program in synthesis.PROGRAMS.items()
            }
        )
    lines = [f"{STDLIB}  Questions over the standard library's documentation."]
    for name, program in synthesis.PROGRAMS.items():
        lines.append(f"{name}  {program.about}")
        for knob, each in program.knobs.items():
            lines.append(f"    {knob}={each.value}  ({each.least} to {each.most}) {each.about}")
    return "\n".join(lines)


def _knobs(given: Sequence[str]) -> dict[str, int]:
    found = {}
    for each in given:
        name, _, value = each.partition("=")
        if not value.lstrip("-").isdecimal():
            raise UsageError(f"--knob {each}: must be NAME=NUMBER")
        found[name] = int(value)
    return found


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _refuse(given: dict[str, Any], why: str) -> None:
    if given:
        raise UsageError(f"{', '.join(given)}: {why}")
