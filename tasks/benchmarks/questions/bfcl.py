"""BFCL's format: one turn, the available functions, and the right values of each argument.

In the irrelevance sets no call is right, in ``live_relevance`` any call. Categories of several
turns, Java, JavaScript and memory are left to BFCL's own package (`bfcl_package`).
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from tutti.tasks.benchmarks.benchmark import tool
from tutti.tasks.benchmarks.errors import SourceMissing
from tutti.tasks.benchmarks.rows import Row, read_rows
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.task_sets import Task

MAX_VALUES = 4096  # values of one argument, written out; the largest in the data has a few dozen
LEAVE_OUT = ""  # among an argument's values: it may be omitted
WITHOUT_ANSWERS = ("irrelevance", "live_irrelevance", "live_relevance")
TYPES = {
    "dict": "object",
    "float": "number",
    "double": "number",
    "tuple": "array",
    "list": "array",
    "any": "string",
    "String": "string",
    "bool": "boolean",
    "int": "integer",
}


def read(files: Files) -> Iterator[Task]:
    """One task per question with ``id``, ``question`` and ``function``. Raises BadRow."""
    for path in files.paths:
        category = path.stem.split("_", 2)[-1]
        answers = {} if category in WITHOUT_ANSWERS else _answers(files, path.name)
        for row in read_rows(path):
            item_id = row.text("id")
            names = {one.text("name"): _tool(one) for one in row.objects("function")}
            free = category in WITHOUT_ANSWERS
            calls = [] if free else _right_calls(row, answers, names)
            functions = dict(map(_declared, row.objects("function")))
            yield Task(
                key=item_id,
                inputs={},
                target={"calls": calls, "category": category, "functions": functions},
                attributes={"category": category, "tools": str(len(names))},
                given=_messages(row),
                tools=list(names.values()),
            )


def _declared(row: Row) -> tuple[str, dict[str, Any]]:
    """Return a function's name, required arguments, and for each argument its type and its items'
    type, in BFCL's own terms."""
    parameters = row.object("parameters")
    properties = parameters.object("properties") if parameters.name_of("properties") else None
    types: dict[str, list[str | None]] = {}
    for name in properties.data if properties else ():
        inner = properties.object(name) if properties else parameters
        tasks = inner.object("items") if inner.name_of("items") else None
        types[name] = [inner.text("type"), tasks.text_or("", "type") if tasks else None]
    required = parameters.texts_or("required")
    return _openai_name(row.text("name")), {"required": required, "types": types}


def _answers(files: Files, name: str) -> dict[str, Row]:
    for folder in ("possible_answer", "data/possible_answer"):
        path = files.root / folder / name
        if path.is_file():
            return {row.text("id"): row for row in read_rows(path)}
    raise SourceMissing(f"{files.root}/possible_answer/{name}, with the right calls, is missing")


def _right_calls(
    question: Row, answers: Mapping[str, Row], tools: Mapping[str, Any]
) -> list[dict[str, Any]]:
    item_id = question.text("id")
    if item_id not in answers:
        question.bad("id", f"{item_id} has no answer in possible_answer/{question.file.name}")
    return [_call(call, tools) for call in answers[item_id].objects("ground_truth")]


def _messages(row: Row) -> list[Mapping[str, Any]]:
    turns = row.array("question")
    if len(turns) != 1 or not isinstance(turns[0], list) or not turns[0]:
        row.bad("question", f"{len(turns)} turns; one turn of messages is read here")
    messages = row.inner("", {"question": turns[0]}).objects("question")
    return [
        {"role": one.text("role"), "content": one.text("content", empty=True)} for one in messages
    ]


def _openai_name(name: str) -> str:
    return name.replace(".", "_")  # OpenAI allows no dot; BFCL uses the same form for OpenAI


def _tool(row: Row) -> dict[str, Any]:
    parameters = _schema(dict(row.object("parameters").data))
    return tool(_openai_name(row.text("name")), row.text_or("", "description"), parameters)


def _schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """BFCL's schema with the type names of JSON schema, at every depth."""
    made: dict[str, Any] = dict(schema)
    if isinstance(made.get("type"), str):
        made["type"] = TYPES.get(made["type"], made["type"])
    if isinstance(made.get("properties"), dict):
        made["properties"] = {name: _schema(one) for name, one in made["properties"].items()}
    if isinstance(made.get("items"), dict):
        made["items"] = _schema(made["items"])
    return made


def _call(row: Row, tools: Mapping[str, Any]) -> dict[str, Any]:
    """One right call, ``{name: {argument: [values …]}}``, in the scorer's format."""
    if len(row.data) != 1:
        row.bad("", f"{len(row.data)} names in one call")
    (name,) = row.data
    if name not in tools:
        row.bad(name, f"is none of the functions on offer: {', '.join(tools)}")
    arguments = row.object(name)
    accepted, possible, optional = {}, {}, []
    for argument in arguments.data:
        values = arguments.array(argument)
        if LEAVE_OUT in values:
            optional.append(argument)
        possible[argument] = values
        accepted[argument] = [
            concrete for value in values for concrete in _concrete(value, arguments, argument)
        ]
    call = {"name": _openai_name(name), "accepted": accepted, "optional": optional}
    return call | {"possible": possible}


def _concrete(value: Any, row: Row, argument: str) -> list[Any]:
    """Return every value that a right value represents: in objects, each key lists its own values,
    or has one."""
    found = list(itertools.islice(_expand(value), MAX_VALUES + 1))
    if len(found) > MAX_VALUES:
        row.bad(argument, f"stands for more than {MAX_VALUES} values")
    return found


def _expand(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        choices = [list(_of_key(name, values)) for name, values in value.items()]
        for pairs in itertools.product(*choices):
            yield {name: chosen for pair in pairs for name, chosen in pair.items()}
    elif isinstance(value, list):
        for members in itertools.product(*(list(_expand(member)) for member in value)):
            yield list(members)
    else:
        yield value


def _of_key(name: str, values: Any) -> Iterator[dict[str, Any]]:
    for value in values if isinstance(values, list) else [values]:  # live_multiple has numbers
        if value == LEAVE_OUT:
            yield {}
        else:
            for concrete in _expand(value):
                yield {name: concrete}
