"""The schemas offered to the orchestrator: a tool with its experts; and parsing of its choice."""

from typing import Any

from tutti.tasks.agents.orchestrator.agent_file import Expert, Tool
from tutti.tasks.agents.tools import arguments_of


def offered(name: str, tool: Tool, argument: str, strict: bool = False) -> dict[str, Any]:
    """The tool in OpenAI's function format. Its one argument names an expert; skills, prices and
    latency of each are described, its model is not. `strict`: an engine with support decodes valid
    arguments only."""
    lines = [tool.description, *(f"- {alias}: {_told(e)}" for alias, e in tool.experts.items())]
    value = {"type": "string", "enum": list(tool.experts), "description": "the expert to ask"}
    parameters: dict[str, Any] = {"type": "object", "properties": {argument: value}}
    parameters |= {"required": [argument]} | ({"additionalProperties": False} if strict else {})
    function = {"name": name, "description": "\n".join(lines), "parameters": parameters}
    return {"type": "function", "function": function | ({"strict": True} if strict else {})}


def _told(expert: Expert) -> str:
    prices = expert.prices
    return (
        f"{expert.skills[0]} {prices.prompt:.4g} USD per million tokens read,"
        f" {prices.completion:.4g} per million written; about {expert.latency_s:.4g} s."
    )


def chosen(name: str, tool: Tool, argument: str, arguments: str) -> Expert:
    """The expert that a call names; `arguments` is the model's JSON text.

    Raises ValueError that says what is invalid.
    """
    alias = arguments_of(arguments).get(argument)
    if not isinstance(alias, str):
        raise ValueError(f"{name} needs the argument {argument!r}, the name of an expert")
    if alias not in tool.experts:
        known = ", ".join(tool.experts)
        raise ValueError(f"{name} has no expert {alias!r}; there are: {known}")
    return tool.experts[alias]
