"""FlowBench's turn level: the next step of a dialogue that follows a workflow.

One benchmark for each form that the workflow is written in: ``flowbench-text``,
``flowbench-code``, ``flowbench-flowchart``. The task is one turn: the dialogue so far, the APIs,
and as the target the call that the gold thought makes, or none where the gold turn is a reply.
Replies themselves are not scored here. Scorer ``flowbench_turn`` needs a judge for texts that
differ; rules ``without_judge`` and ``strict`` (exact JSON) do not. Whole sessions are
`flowbench_session`'s.

The data are on a drive of the authors' and were not at hand: rows are read as the published
programs read them (``id``, ``messages``, ``apis``, ``gt_thought``, ``gt_response``), and the
workflow comes from ``knowledge.json`` beside the turns' file, ``{form: text}`` or
``{scenario: {form: text}}`` where a scenario is the file's name without its ending.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tutti.tasks.benchmarks.benchmark import tool
from tutti.tasks.benchmarks.errors import BadRow
from tutti.tasks.benchmarks.rows import Row, read_json, read_rows
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.task_sets import Task

FORMS = ("text", "code", "flowchart")
KNOWLEDGE = "knowledge.json"


def read(files: Files, form: str) -> Iterator[Task]:
    """One task per row. Raises BadRow, also if the workflow is missing in `form`."""
    for path in files.paths:
        workflow = workflow_of(path, form)
        for row in read_rows(path):
            call = _call(row)
            response = row.text_or("", "gt_response")
            if call is None and not response.strip():
                row.bad("gt_response", "is empty, and gt_thought makes no call")
            yield Task(
                key=f"{path.stem}/{row.name('id')}",
                inputs={"workflow": workflow},
                target={"calls": [] if call is None else [call], "response": response},
                attributes={
                    "scenario": path.stem,
                    "form": form,
                    "step": "reply" if call is None else "call",
                },
                given=_messages(row),
                tools=[described(api) for api in row.objects("apis")],
            )


def workflow_of(path: Path, form: str) -> str:
    """The workflow of the scenario whose turns or sessions are in `path`. Raises BadRow."""
    file = path.with_name(KNOWLEDGE)
    if not file.is_file():
        raise BadRow(file, None, "", f"is missing: it holds the workflow as {form}")
    known = read_json(file)
    if isinstance(known, dict) and isinstance(known.get(path.stem), dict):
        known = known[path.stem]
    if not isinstance(known, dict) or not isinstance(known.get(form), str):
        raise BadRow(file, None, form, f"no such text for {path.stem}")
    return str(known[form])


def _call(row: Row) -> dict[str, Any] | None:
    """The gold thought's call; None if it makes none."""
    thought = row.object("gt_thought")
    name = thought.text_or("", "Action").strip()
    if not name:
        return None
    written = thought.value("Action Input") if thought.name_of("Action Input") else ""
    if written == "":
        return {"name": name, "arguments": {}}
    return {"name": name, "arguments": dict(thought.object("Action Input").data)}


def _messages(row: Row) -> list[Mapping[str, Any]]:
    messages: list[Mapping[str, Any]] = [
        {"role": one.text("role"), "content": one.text("content", empty=True)}
        for one in row.objects("messages")
    ]
    if not messages:
        row.bad("messages", "is empty")
    return messages


def described(row: Row) -> dict[str, Any]:
    """An API in OpenAI's format, or as the inner object of that format."""
    inner = row.object("function") if row.name_of("function") else row
    parameters: Any = inner.json("parameters") if inner.name_of("parameters") else {}
    if not isinstance(parameters, dict):
        inner.bad("parameters", f"{json.dumps(parameters)[:80]} is not an object")
    if "properties" not in parameters:
        parameters = {"type": "object", "properties": parameters}
    return tool(inner.text("name"), inner.text_or("", "description"), parameters)
