"""The agent's tools: what they are called, what they take, and how a call is carried out."""

from typing import Any


def _schema(name: str, description: str, argument: str, meaning: str) -> dict[str, Any]:
    properties = {argument: {"type": "string", "description": meaning}}
    parameters = {"type": "object", "properties": properties, "required": [argument]}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TOOL_SCHEMAS: list[dict[str, Any]] = [
    _schema("search", "Search the documentation.", "query", "a name or a few words"),
    _schema("python", "Run a Python program; what it prints comes back.", "code", "the program"),
]
REQUIRED_ARGUMENT = {"search": "query", "python": "code"}
