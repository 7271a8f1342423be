"""``tutti synth --from INDEX``: questions about the documents of an index.

In: the verb's flags. Out: a plan, or the set's id, its counts and what each gate dropped.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from tutti import storage
from tutti.cli.flow import run_flow
from tutti.errors import UsageError
from tutti.tasks import serving, synthesis
from tutti.tasks.synthesis import teacher


def about_documents(asked: dict[str, Any], models: Path, plan: bool, as_json: bool) -> str:
    """Make the set, or say what that takes. `asked`: the given flags by name."""
    if "topic" in asked:
        raise UsageError("--topic: is for a domain; with --from, the documents are the topic")
    budget = [f"--{name}" for name in ("usd", "calls") if name in asked]
    if budget and "teacher" not in asked:
        raise UsageError(f"{', '.join(budget)}: is a teacher's; name one, as --teacher big")
    request = synthesis.DocumentsRequest.model_validate(asked)
    if request.teacher:
        found = _teachers_plan(request, models, as_json)
    elif plan:
        found = _programs_plan(request, as_json)
    if plan:
        return found
    if request.teacher:
        typer.echo(found, err=True)
    return _made(request, models, as_json)


def _made(request: Any, models: Path, as_json: bool) -> str:
    from tutti.flows.synthesize import synthesize_tasks

    given = (synthesis.TaskRequest(), None, None, models, request)
    return shown_set(run_flow(synthesize_tasks, False, as_json, *given), as_json)


def _programs_plan(request: Any, as_json: bool) -> str:
    with storage.open_catalog() as catalog:
        known = synthesis.benchmark_questions(catalog.home) if request.contamination else []
        found = synthesis.plan_document_set(request, catalog, known)
    return json.dumps(asdict(found)) if as_json else "\n".join(found.lines)


def _teachers_plan(request: Any, models: Path, as_json: bool) -> str:
    with storage.open_catalog() as catalog:
        found = synthesis.plan_by_teacher(
            request, catalog, teacher.prices_of(serving.pick_model(models, request.teacher))
        )
    return json.dumps(found.as_rows) if as_json else found.text


def shown_set(made: dict[str, Any], as_json: bool) -> str:
    """A made set for people or programs: its id, its counts, its gates."""
    if as_json:
        return json.dumps(made)
    lines = [made["task_set_id"], synthesis.count_lines(made["counts"])]
    return "\n".join([*lines, *([synthesis.gate_lines(made["gates"])] if made["gates"] else [])])
