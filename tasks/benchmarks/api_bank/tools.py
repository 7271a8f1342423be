"""API-Bank's documentation of its APIs, in OpenAI's form of functions.

The cells of ``data/all_apis.csv`` hold Python assignments, parsed as literals and never run. An API
whose gold calls use an argument that is not in the table is described by its calls' arguments
instead. All arguments are text, as in the data.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tutti.tasks.benchmarks.benchmark import text_tool
from tutti.tasks.benchmarks.rows import Row, read_rows

SEARCHER = "ToolSearcher"
SEARCHER_TOOL = text_tool(
    SEARCHER,
    "Searches the library for the API that fits the keywords.",
    {"keywords": "What is looked for."},
)


def describe_tools(
    home: Path | None, calls: Iterable[tuple[str, Mapping[str, Any]]]
) -> dict[str, dict[str, Any]]:
    """Return every API in `calls` by name, described by the table under `home` (if it exists), or
    by the arguments of the calls. Raises BadRow for an unreadable table."""
    used: dict[str, dict[str, str]] = {}
    for name, arguments in calls:
        used.setdefault(name, {}).update(dict.fromkeys(arguments, ""))
    table = {} if home is None else _table(home / "data" / "all_apis.csv")
    tools = {SEARCHER: SEARCHER_TOOL}
    for name, arguments in used.items():
        if name != SEARCHER:
            description, parameters = table.get(name, ("", {}))
            known = parameters if set(arguments) <= set(parameters) else arguments
            tools[name] = _tool(name, description, known)
    return tools


def found_tools(result: Row) -> dict[str, dict[str, Any]]:
    """The APIs that a tool searcher's result describes, by name. Raises BadRow."""
    several = isinstance(result.value("output"), list)
    tools = {}
    for row in result.objects("output") if several else [result.object("output")]:
        inputs, name = row.object("input_parameters"), row.text("name")
        parameters = {each: _parameter(inputs.object(each)) for each in inputs.data}
        tools[name] = _tool(name, row.text("description"), parameters)
    return tools


def spaced(text: str) -> str:
    """Split names into words: ``QueryStock`` is "Query Stock"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)


def _tool(name: str, description: str, parameters: Mapping[str, str]) -> dict[str, Any]:
    # None is required: some calls of ForgotPassword take other arguments than others.
    return text_tool(name, description, parameters, is_required=False)


def _table(file: Path) -> dict[str, tuple[str, dict[str, str]]]:
    """Return description and parameters' meanings per API; an API whose cell is not valid Python
    literals (``ImageCaption`` has a full stop there) is left out."""
    if not file.is_file():
        return {}
    described = {}
    for row in read_rows(file):
        values = _literals(row.text("api_info"))
        if values is None:
            continue
        inputs = values.get("input_parameters")
        parameters = {}
        if isinstance(inputs, dict):  # {None} and None stand for no parameters
            inner = row.inner("api_info.input_parameters", inputs)
            parameters = {name: _parameter(inner.object(name)) for name in inputs}
        described[row.text("类名")] = (str(values.get("description", "")), parameters)
    return described


def _literals(cell: str) -> dict[str, Any] | None:
    try:
        statements = ast.parse(cell).body
        return {
            statement.targets[0].id: ast.literal_eval(statement.value)
            for statement in statements
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
        }
    except (SyntaxError, ValueError, TypeError):
        return None


def _parameter(row: Row) -> str:
    return f"{row.text('description')} ({row.text('type')})"
