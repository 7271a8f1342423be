"""What a server is started with: a `Launch` in, a `ServerCommand` out.

`flags` writes the flags of each server. A flag stands once: what the entry writes in `args`
replaces a default of tutti's, and is refused where a setting of the entry or tutti itself gives it.
The parsers of tool calls and reasoning are chosen by the model's family, from the table
`parsers.yaml`, whose head says where they come from.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, model_validator

from tutti.tasks.config import read_document
from tutti.tasks.serving.errors import RegistryError
from tutti.tasks.serving.registry.settings import Device, EngineSettings, ServerKind, Strict

TABLE = Path(__file__).with_name("parsers.yaml")
NO_PARSER = "none"
"""What an entry writes for a parser that must not be there."""

Pair = tuple[str | None, str | None]


@dataclass(frozen=True)
class Parsers:
    """The parsers of one engine; None where it has none."""

    tools: str | None
    reasoning: str | None
    why: str
    """Where they come from: the entry, or the row of the table."""


class _Row(Strict):
    name: str | None = None
    type: str | None = None
    vllm: Pair
    sglang: Pair

    @model_validator(mode="after")
    def _one_key(self) -> "_Row":
        if (self.name is None) == (self.type is None):
            raise ValueError("give either `name` or `type`")
        return self


class _Table(BaseModel):
    rows: tuple[_Row, ...]


@cache
def _rows() -> tuple[_Row, ...]:
    return read_document(TABLE, RegistryError).check(_Table).rows


def known_family(name: str, config: Mapping[str, Any]) -> _Row | None:
    """The row that a model's name or else its `model_type` is in.

    `name` is a hub id or a folder's name; `config` its config.json.
    """
    plain = re.sub(r"[._]", "-", name.rsplit("/", 1)[-1].lower())
    named = (row for row in _rows() if row.name is not None and re.search(row.name, plain))
    if (row := next(named, None)) is not None:
        return row
    kind = config.get("model_type")
    return next((row for row in _rows() if row.type is not None and row.type == kind), None)


def parsers_of(settings: EngineSettings, name: str, config: Mapping[str, Any]) -> Parsers:
    """The parsers of an engine: those that its entry names, else those of the model's family.

    llama.cpp reads both by the chat template, and has no parser to choose.
    """
    if settings.server == "llama.cpp":
        return Parsers(None, None, "llama.cpp reads them by the chat template")
    row = known_family(name, config)
    tools, reasoning = (None, None) if row is None else _pair(row, settings.server)
    family = "no family that is known" if row is None else f"family {row.name or row.type}"
    asked = [each for each in (settings.tool_parser, settings.reasoning_parser) if each is not None]
    return Parsers(
        _chosen(settings.tool_parser, tools),
        _chosen(settings.reasoning_parser, reasoning),
        "the entry" if len(asked) == 2 else family if not asked else f"the entry, and {family}",
    )


def _pair(row: _Row, server: ServerKind) -> Pair:
    return row.sglang if server == "sglang" else row.vllm


def _chosen(asked: str | None, usual: str | None) -> str | None:
    if asked is None:
        return usual
    return None if asked == NO_PARSER else asked


Value = Any
"""Of a flag: text or a number, a list for several values, True for a switch, a dictionary for JSON.
None and, where the server has no form of it, False leave the flag out."""


@dataclass(frozen=True)
class Launch:
    """All that decides a server's command, besides its port."""

    name: str
    """Its entry's name, which it serves the model as."""
    weights: Path
    """A folder, or a GGUF file."""
    context_tokens: int
    settings: EngineSettings
    device: Device
    parsers: Parsers
    kv_bytes: int | None = None
    """The KV cache's size on each GPU, where the entry gives it in tokens."""
    weights_bytes: int = 0
    """Of the tensors that are loaded."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The model's config.json."""

    @property
    def max_context(self) -> int | None:
        """Tokens of context that the model was made for, where its config.json says."""
        config = self.config.get("text_config", self.config)
        limit = config.get("max_position_embeddings")
        return limit if isinstance(limit, int) else None


@dataclass(frozen=True)
class Flags:
    """The flags of a server, by name without dashes."""

    ours: Mapping[str, Value]
    """What tutti needs; an entry cannot give them."""
    settings: Mapping[str, tuple[str, Value]]
    """By flag: the setting of `engine` that gives it, and its value."""
    defaults: Mapping[str, Value] = field(default_factory=dict)
    """What tutti thinks best on this device; `args` replaces them."""


@dataclass(frozen=True)
class ServerCommand:
    """A server's command, to be run with the models environment's Python or as a program."""

    program: tuple[str, ...]
    """``-m module`` for Python, or the path of a binary."""
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    by_python: bool = True


def merged(launch: Launch, flags: Flags, negation: str | None) -> tuple[str, ...]:
    """The flags as arguments, each once.

    `negation`: what a switch that is off begins with (``no-``); None where the server has none.
    Raises RegistryError that names the field for a flag in `args` that is given elsewhere.
    """
    where = f"models.{launch.name}.engine.args"
    values = {**flags.ours, **{name: value for name, (_, value) in flags.settings.items()}}
    for name, value in launch.settings.args.items():
        plain = name.removeprefix("no-")
        if plain in flags.ours:
            raise RegistryError(f"{where}.{name}: tutti sets --{plain} itself; remove it")
        if plain in flags.settings:
            setting = flags.settings[plain][0]
            raise RegistryError(f"{where}.{name}: give it as `engine.{setting}`, not here")
        if value is False and negation is None:
            raise RegistryError(f"{where}.{name}: this server has no form of it that is off")
        if name != plain and plain in launch.settings.args:
            raise RegistryError(f"{where}: {name} and {plain} contradict each other")
        values[name] = value
    given = {name.removeprefix("no-") for name in launch.settings.args}
    values |= {name: value for name, value in flags.defaults.items() if name not in given}
    return tuple(word for name, value in values.items() for word in _words(name, value, negation))


def _words(name: str, value: Value, negation: str | None) -> list[str]:
    if value is None or (value is False and negation is None):
        return []
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--{negation}{name}"]
    if isinstance(value, Mapping):
        return [f"--{name}", json.dumps(value, sort_keys=True)]
    if isinstance(value, list | tuple):
        return [f"--{name}", *map(str, value)]
    return [f"--{name}", str(value)]
