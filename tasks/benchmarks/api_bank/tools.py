"""API-Bank's documentation of its APIs, as OpenAI describes functions.

In: ``data/all_apis.csv``, whose cells hold a few Python assignments (read as literals, never run),
and the gold calls. The table and the dialogues disagree in places (the table's ``AddMeeting`` takes
``content`` and ``recipients``, the dialogues' ``meeting_topic`` and ``attendees``): an API whose
gold calls use an argument that the table does not know is described by its calls' arguments
instead, and `Descriptions.differing` names it. Arguments are text throughout, as in the data; the
documented type stands in the description.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Descriptions:
    """Every API of the dialogues, described."""

    tools: Mapping[str, dict[str, Any]]
    differing: frozenset[str]
    """APIs whose description in the table differs from their use in the gold calls."""

    def tool(self, name: str) -> dict[str, Any]:
        """The description of API `name`, which must be one of the dialogues'."""
        return self.tools[name]

    @classmethod
    def of(
        cls, home: Path | None, calls: Iterable[tuple[str, Mapping[str, Any]]]
    ) -> "Descriptions":
        """Describe every API in `calls` by the table under `home` (if it exists), or by the
        arguments of the calls. Raises BadRow for an unreadable table."""
        used: dict[str, dict[str, str]] = {}
        for name, arguments in calls:
            used.setdefault(name, {}).update(dict.fromkeys(arguments, ""))
        table = {} if home is None else _table(home / "data" / "all_apis.csv")
        tools, differing = {SEARCHER: SEARCHER_TOOL}, set()
        for name, arguments in used.items():
            if name == SEARCHER:
                continue
            description, parameters = table.get(name, ("", {}))
            if not set(arguments) <= set(parameters):
                differing.add(name)
                parameters = arguments
            tools[name] = _tool(name, description, parameters)
        return cls(tools, frozenset(differing))

    @staticmethod
    def found(result: Row, field: str = "output") -> list[dict[str, Any]]:
        """The APIs that a tool searcher's result describes, one or several. Raises BadRow."""
        several = isinstance(result.value(field), list)
        rows = result.objects(field) if several else [result.object(field)]
        return [Descriptions._found(row) for row in rows]

    @staticmethod
    def _found(row: Row) -> dict[str, Any]:
        inputs = row.object("input_parameters")
        parameters = {name: _parameter(inputs.object(name)) for name in inputs.data}
        return _tool(row.text("name"), row.text("description"), parameters)


def spaced(text: str) -> str:
    """Names as words: ``QueryStock`` is "Query Stock"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)


def _tool(name: str, description: str, parameters: Mapping[str, str]) -> dict[str, Any]:
    # None is required: some calls of ForgotPassword take other arguments than others.
    return text_tool(name, description, parameters, is_required=False)


def _table(file: Path) -> dict[str, tuple[str, dict[str, str]]]:
    """Description and parameters' meanings per API; an API whose cell is not valid Python literals
    (``ImageCaption`` has a full stop there) is left out."""
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
    """The names that a cell assigns, with their values; None if it is not an assignment of
    literals."""
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
