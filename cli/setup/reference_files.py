"""Conversion of ToolOrchestra's own settings to tutti's files.

In: a ``model_config_*.json`` (addresses by model or service) and a ``tools.json`` (experts in prose
and in a table). Out: the text of a model registry, an agent file and a suite; values that their
files lack are marked with ``CHECK``.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tutti.cli.base.failures import UsageError
from tutti.tasks.agents.orchestrator import read_agent

HLE_SERVICE, FRAMES_SERVICE = SERVICES = ("retrieval", "wiki_retrieval")
MAPPING, OWN_PATH = "oss_expert_mapping", "vllm_model_config_path"
BASES = {"hle": "toolorchestra", "frames": "toolorchestra-frames"}
"""The shipped agent with the prompt caps of a benchmark."""
CONTEXT_TOKENS = 32_768  # written with CHECK beside it: their file says none
LINE = re.compile(
    r"^\s*(?P<alias>[\w.-]+)\s*\|\s*\$*(?P<prompt>[\d.]+)\s*\|\s*\$*(?P<completion>[\d.]+)\s*\|"
    r"\s*(?P<latency>[\d.]+)\s*s\s*$",
    re.MULTILINE,
)
"""A line of the table: ``reasoner-1 | $1.25 | $10 | 31s``; their file has a doubled sign, too."""


@dataclass(frozen=True)
class Addresses:
    """The content of a ``model_config_*.json``."""

    models: Mapping[str, list[str]]
    """URLs by the name that their clients ask for."""
    services: Mapping[str, list[str]] = field(default_factory=dict)
    experts: Mapping[str, str] = field(default_factory=dict)
    """Model by expert alias, where the file maps them."""

    @property
    def benchmark(self) -> str:
        """FRAMES if only its service is listed, else HLE."""
        only_frames = FRAMES_SERVICE in self.services and HLE_SERVICE not in self.services
        return "frames" if only_frames else "hle"


def read_addresses(path: Path) -> Addresses:
    """Read a ``model_config_*.json``. Raises UsageError with file, field and value."""
    given = _read_json(path, dict)
    models: dict[str, list[str]] = {}
    services: dict[str, list[str]] = {}
    for name, value in given.items():
        if name in (MAPPING, OWN_PATH):
            continue
        urls = _urls(path, name, value)
        (services if name in SERVICES else models)[name] = urls
    experts = given.get(MAPPING, {})
    if not isinstance(experts, dict) or not all(isinstance(x, str) for x in experts.values()):
        raise UsageError(f"{path}: {MAPPING}: {experts!r} is not an object of aliases to models")
    if not models:
        raise UsageError(f"{path}: no model has an address")
    return Addresses(models, services, experts)


def _urls(path: Path, name: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not value:
        raise UsageError(f"{path}: {name}: {value!r} is not a list of addresses")
    urls = []
    for place, one in enumerate(value):
        where = f"{path}: {name}.{place}"
        if not isinstance(one, dict) or not {"ip_addr", "port"} <= one.keys():
            raise UsageError(f"{where}: {one!r} has not both ip_addr and port")
        host, port = str(one["ip_addr"]), str(one["port"])
        if not re.fullmatch(r"[A-Za-z0-9._-]+", host):
            raise UsageError(f"{where}.ip_addr: {host!r} is no host")
        if not port.isdigit() or not 0 < int(port) < 65_536:
            raise UsageError(f"{where}.port: {port!r} is no port")
        urls.append(f"http://{host}:{int(port)}")
    return urls


def registry_text(addresses: Addresses) -> str:
    """``models.yaml`` with an entry for each address. Raises UsageError for two equal names."""
    lines = ["# From an address list of ToolOrchestra, which does not say what is marked CHECK."]
    lines.append("models:")
    seen: dict[str, str] = {}
    for served, urls in addresses.models.items():
        name = entry_name(served)
        if name in seen:
            raise UsageError(
                f"{served} and {seen[name]} would both be the entry {name}; rename one"
            )
        seen[name] = served
        for place, url in enumerate(urls):
            entry = name if place == 0 else f"{name}-{place + 1}"
            note = "" if place == 0 else "    # another server of the same model"
            lines += [
                f"  {json.dumps(entry)}:{note}",
                "    provider: vllm",
                f"    endpoint: {url}/v1",
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
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for place, tool in enumerate(_read_json(path, list)):
        try:
            function = tool["function"]
            name, text = function["name"], function["parameters"]["properties"]["model"]
            said = str(text["description"])
        except (KeyError, TypeError) as error:
            raise UsageError(
                f"{path}: {place}: no tool with a parameter `model`: {error}"
            ) from error
        rows = {line["alias"]: line for line in LINE.finditer(said)}
        if not rows:
            raise UsageError(f"{path}: {name}: no line `alias | $in | $out | seconds s` in it")
        found[name] = {alias: _expert(alias, line, said) for alias, line in rows.items()}
    return found


def _expert(alias: str, line: re.Match[str], said: str) -> dict[str, Any]:
    """An expert in an agent file's form; its skill is the sentence that begins with its name."""
    skill = re.search(rf"(?:^|[.\]]\s+){re.escape(alias)}\s+([^|]+?)\.(?=\s|$)", said)
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
    """Return an agent file that extends tutti's own of the benchmark by the given experts; an
    expert that the addresses map gets its model. Raises UsageError for an unknown tool or alias."""
    extended, experts = BASES[addresses.benchmark], addresses.experts
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
    benchmark = addresses.benchmark
    service = HLE_SERVICE if benchmark == "hle" else FRAMES_SERVICE
    url = addresses.services.get(service, ["http://127.0.0.1:8100"])[0]
    return "\n".join(
        (
            "# The orchestrator's evaluation (docs/orchestrator.md).",
            "name: orchestrator",
            f"benchmark: {benchmark}",
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


def _read_json(path: Path, kind: type) -> Any:
    try:
        value = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON: {error}") from error
    if not isinstance(value, kind):
        raise UsageError(f"{path}: holds no {'object' if kind is dict else 'list'}")
    return value
