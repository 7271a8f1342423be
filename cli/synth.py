"""``tutti synth``: task sets, over the standard library or of a domain.

In: the verb's flags. Out: the task set's id, its counts and the drops of each gate.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tutti import storage
from tutti.cli.base.flow import run_flow
from tutti.cli.base.verbs import AsJson, ModelsFile, given, verb
from tutti.errors import UsageError
from tutti.tasks import synthesis, task_sets
from tutti.tasks.serving import registry
from tutti.tasks.synthesis import teacher as teachers

SOURCES = {"stdlib": "TaskRequest"}
"""Requests by what is made, if it is no domain."""
OF_STDLIB = "stdlib only"
OF_DOMAINS = "a domain's only"
BUDGET = ("usd", "calls")
FILTERS = {
    "pass_rate": "BandRequest",
    "agreement": "AgreementRequest",
    "judge": "JudgeRequest",
}
"""The further gates over a stored set, one a command, by their flags; loaded when one is used."""


@dataclass(frozen=True, kw_only=True)
class SizeFlags:
    """The flags of the set's size."""

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
    """The flags for selecting tasks of a stored set."""

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
    domain: Annotated[str, typer.Argument(help="what to make; --list shows all")] = "stdlib",
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
    """Synthesize a task set: gates judge candidates, and each reject has its reason."""
    if list_domains:
        typer.echo(_listed(as_json))
        return
    flags = given(amount, of_library, keep, teaching)
    flags |= {"seed": seed} if seed else {}
    flags |= {"index": from_index} if from_index else {}
    request = _request(domain, flags)
    asks = isinstance(request, teachers.BudgetedRequest) and request.models_asked
    if plan or (asks and not isinstance(request, synthesis.JudgeRequest)):
        found = _planned(request, models)
        if plan:
            typer.echo(json.dumps(found.figures) if as_json else "\n".join(found.lines))
            return
        typer.echo("\n".join(found.lines), err=True)
    typer.echo(make_shown(request, models, as_json))


def _request(what: str, flags: dict[str, Any]) -> Any:
    """Return the request for `what` by the given flags. Raises UsageError, and ValidationError."""
    kind: Any
    if "index" in flags:
        if what not in SOURCES:
            raise UsageError(f"{what}: --from makes no domain; leave it out")
        what, kind = "--from", synthesis.DocumentsRequest
        if "teacher" not in flags and (budget := [f"--{n}" for n in BUDGET if n in flags]):
            raise UsageError(f"{', '.join(budget)}: is a teacher's; name one, as --teacher big")
    elif "teacher" in flags or "topic" in flags:
        what, kind = "--teacher", synthesis.TeacherSetRequest
        if not {"teacher", "topic"} <= flags.keys():
            raise UsageError("--teacher and --topic: give both: --teacher big --topic 'a library'")
        flags = _renamed(flags, {"size": "intents"})
    elif what.startswith("task_set:") or FILTERS.keys() & flags.keys():
        if len(chosen := FILTERS.keys() & flags.keys()) != 1:
            raise UsageError(
                f"{what}: give one of --pass-rate, --agreement and --judge; the set that one makes "
                "is what the next is given"
            )
        kind = getattr(synthesis, FILTERS[chosen.pop()])
        flags = _renamed(flags, {"agreement": "least"}) | {"task_set": what}
        if "pass_rate" in flags:
            flags |= _ends(flags.pop("pass_rate"))
    elif what in SOURCES:
        kind = getattr(synthesis, SOURCES[what])
    else:
        kind, flags = synthesis.DomainRequest, flags | {"domain": what}
    flags = _renamed(flags, {"knob": "knobs", "model": "models"})
    if odd := flags.keys() - kind.model_fields.keys():
        fields = ", ".join(kind.model_fields.keys() - {"source", "task_set", "domain", "index"})
        raise UsageError(f"{', '.join(sorted(odd))}: {what} has no such flag; it has {fields}")
    if "knobs" in flags:
        flags["knobs"] = _knobs(flags["knobs"])
    if "families" in flags:
        flags["families"] = tuple(each.strip() for each in flags["families"].split(","))
    return kind.model_validate(flags)


def _ends(pass_rate: str) -> dict[str, float]:
    low, _, high = pass_rate.partition(":")
    try:
        return {"low": float(low), "high": float(high)}
    except ValueError:
        raise UsageError(
            f"--pass-rate {pass_rate!r}: must be LOW:HIGH, as --pass-rate 0.1:0.9"
        ) from None


def _renamed(flags: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in flags.items()}


def make_shown(request: Any, models: Path, as_json: bool) -> str:
    """Make a request's set; return its id, counts and gates as text for people or programs."""
    from tutti.flows.synthesize import synthesize_tasks

    made = run_flow(synthesize_tasks, False, as_json, request, models)
    if as_json:
        return json.dumps(made)
    lines = [made["task_set_id"], synthesis.count_lines(made["counts"])]
    return "\n".join([*lines, *([synthesis.gate_lines(made["gates"])] if made["gates"] else [])])


def _planned(request: Any, models: Path) -> "task_sets.SetPlan":
    """Return the plan of a request. Raises UsageError for one without plans."""
    if isinstance(request, synthesis.TeacherSetRequest):
        prices = teachers.prices_of(registry.pick_model(models, request.teacher))
        return teachers.plan_teacher(request, prices, request.concurrency)
    if not isinstance(request, synthesis.DocumentsRequest | synthesis.DomainRequest):
        raise UsageError(f"--plan: not of {request.source}: it is made at once")
    if isinstance(request, synthesis.DocumentsRequest) and request.teacher:
        prices = teachers.prices_of(registry.pick_model(models, request.teacher))
        with storage.open_catalog() as catalog:
            return synthesis.plan_by_teacher(request, catalog, prices)
    home = storage.current_home()
    compares = request.contamination and home.root.is_dir()
    known = synthesis.benchmark_questions(home) if compares else []
    if isinstance(request, synthesis.DomainRequest):
        found: task_sets.SetPlan = asyncio.run(synthesis.plan_domain_set(request, known))
        return found
    with storage.open_catalog() as catalog:
        return synthesis.plan_document_set(request, catalog, known)


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
    lines = ["stdlib  Questions over the standard library's documentation."]
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
