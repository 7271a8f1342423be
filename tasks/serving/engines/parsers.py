"""Which parsers read a model's tool calls and its reasoning, by its family.

In: a model's name and its config.json. Out: the names that its server has for them, from the table
`parsers.yaml`, whose head says where they come from.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from tutti.tasks.config import read_document
from tutti.tasks.serving.engines.settings import EngineSettings, ServerKind
from tutti.tasks.serving.errors import RegistryError

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


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

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
