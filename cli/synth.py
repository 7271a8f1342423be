"""``tutti synth``: task sets, over the standard library or of a domain.

In: the verb's flags. Out: the task set's id, its counts and what each gate dropped.
"""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tutti.cli.failures import guarded
from tutti.cli.flow import run_flow
from tutti.cli.keeping import TaskSetFilter
from tutti.cli.options import AsJson, ModelsFile
from tutti.cli.synth_documents import about_documents, shown_set
from tutti.errors import UsageError

STDLIB = "stdlib"
NOT_OF_STDLIB = "stdlib has no such flag; name a domain, as `tutti synth retail`"
OF_STDLIB = "stdlib only"
OF_DOMAINS = "a domain's only"


SizeFlag = Annotated[
    int | None, typer.Option(help=f"tasks that pass every gate (200; {OF_DOMAINS})")
]
SeedFlag = Annotated[int, typer.Option(help="decides what is asked about")]
KnobFlag = Annotated[
    list[str] | None, typer.Option(help=f"NAME=NUMBER, as --list shows ({OF_DOMAINS})")
]
WorkersFlag = Annotated[
    int | None, typer.Option(help=f"processes; the set is the same (1; {OF_DOMAINS})")
]
FamiliesFlag = Annotated[
    str, typer.Option(help=f"families, separated by commas (all; {OF_STDLIB})")
]
TrainFlag = Annotated[
    int | None, typer.Option(help=f"training candidates per family (40; {OF_STDLIB})")
]
TestFlag = Annotated[int | None, typer.Option(help=f"test candidates per family (16; {OF_STDLIB})")]
PlanFlag = Annotated[
    bool, typer.Option("--plan", help="say what it will take, from a sample, and make nothing")
]
BandFlag = Annotated[
    str, typer.Option(help="LOW:HIGH: of a measured set (task_set:ID), the tasks with this pass@k")
]
AgreementFlag = Annotated[
    float | None,
    typer.Option(help="of a measured set, the tasks with this share of equal, golden solutions"),
]
JudgeFlag = Annotated[
    str, typer.Option(help="of a set (task_set:ID), the tasks that this model finds consistent")
]
KFlag = Annotated[
    int | None, typer.Option("--k", help="attempts that --band (1) and --agreement (4) need")
]
ModelFlag = Annotated[
    list[str] | None, typer.Option(help="whose attempts count for them (everybody's)")
]
TeacherFlag = Annotated[
    str,
    typer.Option(help="this model of the registry asks; needs --topic or --from"),
]
TopicFlag = Annotated[str, typer.Option(help="what the teacher's domain is about")]
UsdFlag = Annotated[
    float | None, typer.Option(help="most that this run of teacher or judge may cost, USD")
]
CallsFlag = Annotated[int | None, typer.Option(help="most calls of this run of teacher or judge")]
FromFlag = Annotated[
    str, typer.Option("--from", help="ask about the documents of this index, by id or folder")
]
ListDomainsFlag = Annotated[bool, typer.Option("--list", help="list the domains and their knobs")]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(synth)


def synth(
    domain: Annotated[str, typer.Argument(help="what to make; --list shows all")] = STDLIB,
    size: SizeFlag = None,
    seed: SeedFlag = 0,
    knob: KnobFlag = None,
    workers: WorkersFlag = None,
    families: FamiliesFlag = "",
    train: TrainFlag = None,
    test: TestFlag = None,
    plan: PlanFlag = False,
    band: BandFlag = "",
    agreement: AgreementFlag = None,
    judge: JudgeFlag = "",
    k: KFlag = None,
    model: ModelFlag = None,
    teacher: TeacherFlag = "",
    topic: TopicFlag = "",
    usd: UsdFlag = None,
    calls: CallsFlag = None,
    from_index: FromFlag = "",
    list_domains: ListDomainsFlag = False,
    *,
    models: ModelsFile,
    as_json: AsJson = False,
) -> None:
    """Synthesize a task set: candidates are shown to gates, and each reject has its reason."""

    def work() -> None:
        own = {"size": size, "workers": workers, "knobs": _knobs(knob or ())}
        over = {"families": _names(families), "train_per_family": train, "test_per_family": test}
        given = {name: value for name, value in own.items() if value not in (None, {})}
        library = {name: value for name, value in over.items() if value not in (None, ())}
        if list_domains:
            typer.echo(_listed(as_json))
        elif from_index:
            _refuse_beside_documents(domain, library, given)
            wanted: dict[str, Any] = {"index": from_index, "size": size, "seed": seed}
            wanted |= {"teacher": teacher, "topic": topic, "usd": usd, "calls": calls}
            typer.echo(about_documents(wanted, models, plan, as_json))
        elif teacher or topic:
            _refuse(library, "a teacher's domain has no families; --size says how many intents")
            limits = {"usd": usd, "calls": calls, "intents": size}.items()
            spent = {name: value for name, value in limits if value is not None}
            asked = {"teacher": teacher, "topic": topic, "seed": seed} | spent
            typer.echo(_by_teacher(asked, models, plan, as_json))
        elif band or agreement is not None or judge or domain.startswith("task_set:"):
            _refuse(given | library, "a stored set's tasks are kept, not made")
            flags = {"k": k, "models": tuple(model or ()), "usd": usd, "calls": calls}
            made = TaskSetFilter(domain, band, agreement, judge, flags).made(models)
            typer.echo(shown_set(made, as_json))
        elif domain == STDLIB:
            _refuse(given | ({"plan": True} if plan else {}), NOT_OF_STDLIB)
            typer.echo(_made(library | {"seed": seed}, None, as_json))
        else:
            _refuse(library, f"{domain} has no families; --size says how many tasks")
            asked = given | {"seed": seed, "domain": domain}
            typer.echo(_planned(asked, as_json) if plan else _made({}, asked, as_json))

    guarded(work)


def _refuse_beside_documents(domain: str, library: dict[str, Any], given: dict[str, Any]) -> None:
    """Raises UsageError for what --from has no use for."""
    _refuse(library, "questions about documents have no families; --size says how many")
    _refuse({name: value for name, value in given.items() if name != "size"}, OF_DOMAINS)
    if domain != STDLIB:
        raise UsageError(f"{domain}: --from makes no domain; leave it out")


def _made(library: dict[str, Any], domain: dict[str, Any] | None, as_json: bool) -> str:
    from tutti.flows.synthesize import synthesize_tasks
    from tutti.tasks.synthesis import DomainRequest, TaskRequest

    request = None if domain is None else DomainRequest.model_validate(domain)
    asked = TaskRequest.model_validate(library)
    return shown_set(run_flow(synthesize_tasks, False, as_json, asked, request), as_json)


def _by_teacher(asked: dict[str, Any], models: Path, plan: bool, as_json: bool) -> str:
    from tutti.flows.synthesize import synthesize_tasks
    from tutti.tasks.serving import pick_model
    from tutti.tasks.synthesis import TaskRequest, TeacherSetRequest
    from tutti.tasks.synthesis.teacher import plan_teacher, prices_of

    if not (asked["teacher"] and asked["topic"]):
        raise UsageError("--teacher and --topic: give both, as --teacher big --topic 'a library'")
    request = TeacherSetRequest.model_validate(asked)
    prices = prices_of(pick_model(models, request.teacher))
    found = plan_teacher(request.chain, prices, request.concurrency)
    if plan:
        return json.dumps(found.as_rows) if as_json else found.text
    typer.echo(found.text, err=True)
    made = run_flow(synthesize_tasks, False, as_json, TaskRequest(), None, request, models)
    return shown_set(made, as_json)


def _planned(asked: dict[str, Any], as_json: bool) -> str:
    from dataclasses import asdict

    from tutti.storage import current_home
    from tutti.tasks.synthesis import DomainRequest, benchmark_questions, plan_domain_set

    request, home = DomainRequest.model_validate(asked), current_home()
    known = benchmark_questions(home) if request.contamination and home.root.is_dir() else []
    found = asyncio.run(plan_domain_set(request, known))
    return json.dumps(asdict(found)) if as_json else "\n".join(found.lines)


def _listed(as_json: bool) -> str:
    from tutti.tasks.synthesis import PROGRAMS

    if as_json:
        return json.dumps(
            {
                name: {
                    "about": program.about,
                    "knobs": {knob: vars(each) for knob, each in program.knobs.items()},
                }
                for name, program in PROGRAMS.items()
            }
        )
    lines = [f"{STDLIB}  Questions over the standard library's documentation."]
    for name, program in PROGRAMS.items():
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
