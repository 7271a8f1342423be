"""Conversion of ToolOrchestra's own settings to tutti's files.

In: a ``model_config_*.json`` (addresses by model or service) and a ``tools.json`` (experts in prose
and in a table). Out: the text of a model registry, an agent file and a suite; values that their
files lack are marked with ``CHECK``.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, Field

from tutti.cli.base.failures import UsageError
from tutti.tasks.agents.orchestrator import read_agent
from tutti.tasks.platform import Document, read_document

BASES = {"hle": "toolorchestra", "frames": "toolorchestra-frames"}
"""The shipped agent with the prompt caps of a benchmark."""
CONTEXT_TOKENS = 32_768  # written with CHECK beside it: their file says none
LINE = re.compile(
    r"^\s*(?P<alias>[\w.-]+)\s*\|\s*\$*(?P<prompt>[\d.]+)\s*\|\s*\$*(?P<completion>[\d.]+)\s*\|"
    r"\s*(?P<latency>[\d.]+)\s*s\s*$",
    re.MULTILINE,
)
"""A line of the table: ``reasoner-1 | $1.25 | $10 | 31s``; their file has a doubled sign, too."""


class Server(BaseModel):
    """The address of a server."""

    ip_addr: str = Field(pattern=r"^[A-Za-z0-9._-]+$")
    port: int = Field(gt=0, lt=65_536)

    @property
    def url(self) -> str:
        """The address without a path."""
        return f"http://{self.ip_addr}:{self.port}"


Servers = Annotated[list[Server], Field(min_length=1)]


class Addresses(BaseModel, extra="allow"):
    """A ``model_config_*.json``."""

    __pydantic_extra__: dict[str, Servers] = Field(init=False)
    retrieval: Servers | None = None
    wiki_retrieval: Servers | None = None
    oss_expert_mapping: dict[str, str] = {}
    """Model by expert alias."""
    vllm_model_config_path: Any = None

    @property
    def models(self) -> dict[str, list[Server]]:
        """Servers by the name that their clients ask for."""
        return self.__pydantic_extra__

    @property
    def benchmark(self) -> str:
        """FRAMES where its service alone is listed, else HLE."""
        return "frames" if self.wiki_retrieval and not self.retrieval else "hle"


def read_addresses(path: Path) -> Addresses:
    """Read a ``model_config_*.json``. Raises UsageError with file, field and value."""
    addresses = _document(path).check(Addresses)
    if not addresses.models:
        raise UsageError(f"{path}: no model has an address")
    return addresses


def registry_text(addresses: Addresses) -> str:
    """``models.yaml`` with an entry for each address. Raises UsageError for two equal names."""
    lines = ["# From an address list of ToolOrchestra, which does not say what is marked CHECK."]
    lines.append("models:")
    seen: dict[str, str] = {}
    for served, servers in addresses.models.items():
        name = entry_name(served)
        if name in seen:
            raise UsageError(
                f"{served} and {seen[name]} would both be the entry {name}; rename one"
            )
        seen[name] = served
        for place, server in enumerate(servers):
            entry = name if place == 0 else f"{name}-{place + 1}"
            note = "" if place == 0 else "    # another server of the same model"
            lines += [
                f"  {json.dumps(entry)}:{note}",
                "    provider: vllm",
                f"    endpoint: {server.url}/v1",
                f"    served_name: {json.dumps(served)}",
                f"    context_tokens: {CONTEXT_TOKENS}    # CHECK",
            ]
    return "\n".join(lines) + "\n"


def entry_name(served: str) -> str:
    """Return the registry's name of a model: the last part of its path."""
    return served.rstrip("/").rsplit("/", 1)[-1]


def read_tools(path: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """``prices``, ``latency_s`` and ``skills`` by tool and expert alias, from a ``tools.json``.
    Raises UsageError for a tool without a table, and for an alias without a line in it."""
    tools = _document(path).content
    if not isinstance(tools, list):
        raise UsageError(f"{path}: not a list of tools")
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for place, tool in enumerate(tools):
        try:
            function = tool["function"]
            name, text = function["name"], function["parameters"]["properties"]["model"]
            description = str(text["description"])
        except (KeyError, TypeError) as error:
            raise UsageError(
                f"{path}: {place}: no tool with a parameter `model`: {error}"
            ) from error
        rows = {line["alias"]: line for line in LINE.finditer(description)}
        if not rows:
            raise UsageError(f"{path}: {name}: no line `alias | $in | $out | seconds s` in it")
        found[name] = {alias: _expert(alias, line, description) for alias, line in rows.items()}
    return found


def _expert(alias: str, line: re.Match[str], description: str) -> dict[str, Any]:
    """An expert as an agent file states it; its skill is the sentence that begins with its name."""
    skill = re.search(rf"(?:^|[.\]]\s+){re.escape(alias)}\s+([^|]+?)\.(?=\s|$)", description)
    expert: dict[str, Any] = {
        "prices": {"prompt": float(line["prompt"]), "completion": float(line["completion"])},
        "latency_s": float(line["latency"]),
    }
    if skill is not None:
        expert["skills"] = skill[1][:1].upper() + skill[1][1:] + "."
    return expert


def agent_text(
    tools: Mapping[str, Mapping[str, Mapping[str, Any]]], addresses: Addresses, path: Path
) -> str:
    """An agent file that extends tutti's own of the benchmark by the given experts; an expert that
    the addresses map gets its model. Raises UsageError for a tool or an alias that it does not
    have."""
    extended, experts = BASES[addresses.benchmark], addresses.oss_expert_mapping
    base = {name: tool.experts for name, tool in read_agent(extended).tools.given()}
    stated: dict[str, Any] = {}
    for tool, aliases in tools.items():
        if tool not in base:
            raise UsageError(f"{path}: {tool}: {extended} has the tools {', '.join(base)}")
        known = base[tool]
        unknown = sorted(set(aliases) - set(known))
        if unknown:
            raise UsageError(
                f"{path}: {tool}: {unknown[0]} is none of {', '.join(known)}; write it into an "
                "agent file yourself (docs/orchestrator.md)"
            )
        gone = {alias: None for alias in known if alias not in aliases}
        mapped = {
            alias: ({"model": entry_name(experts[alias])} if alias in experts else {}) | dict(one)
            for alias, one in aliases.items()
        }
        stated[tool] = {"experts": mapped | gone}
    head = f"# From {path.name} of ToolOrchestra: prices, latency and skills of its experts.\n"
    document = {"extends": extended, "tools": stated}
    return head + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)


def suite_text(addresses: Addresses, agent: str) -> str:
    """Return a suite with that agent. The orchestrator is the first model of the list."""
    models = [entry_name(served) for served in addresses.models] or ["ORCHESTRATOR"]
    services = addresses.retrieval or addresses.wiki_retrieval
    url = services[0].url if services else "http://127.0.0.1:8100"
    return "\n".join(
        (
            "# The orchestrator's evaluation (docs/orchestrator.md).",
            "name: orchestrator",
            f"benchmark: {addresses.benchmark}",
            f"model: {json.dumps(models[0])}    # CHECK: the orchestrator",
            "concurrency: [8]",
            "policies: [passthrough]",
            "roles:",
            f"  agent: {agent}",
            f"  judge: {json.dumps(models[-1])}    # CHECK: the judge",
            f"  search_url: {url}",
            "limits: {max_turns: 50}",
            "",
        )
    )


def _document(path: Path) -> Document:
    try:
        return read_document(path, UsageError)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
