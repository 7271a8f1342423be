"""The declaration of a program: `domain.yaml`, completed from the code in `toolkit.py`.

A tool's parameters, their kinds and the tool's own kind follow from the function of its name, which
is parsed and never run here. The file adds their descriptions, and a tool's results and changes.
"""

import ast
from collections.abc import Mapping
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from tutti.tasks.platform import read_document
from tutti.tasks.synthesis.domains import Domain, FieldSpec, Parameter, Rule, TableSpec, ToolSpec
from tutti.tasks.synthesis.programs.base.program import Knob, Knobs, Tables

KINDS = {
    "str": "text",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list[str]": "texts",
}
"""The kind of a parameter by its annotation."""
Words = str | dict[str, Any]
"""The main text of a named object, or all its fields."""


class WrongDeclaration(ValueError):
    """A program's file that is wrong, or contradicts its toolkit."""


class Content(BaseModel):
    """A part of a program's file."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Declared(Content):
    """The content of `domain.yaml`, with names of an instance's facts in braces."""

    policy: str = ""
    """The policy's title."""
    tables: dict[str, list[Words]] = {}
    """Each field is its name, or its name with fields of `FieldSpec`; the first is the key."""
    table_abouts: dict[str, str] = {}
    parameters: dict[str, Words] = {}
    """For all tools; a tool may have its own."""
    tools: dict[str, Words] = {}
    """`returns` and `changes` are lists of words; ``table.*`` stands for a table's fields."""
    rules: dict[str, Words] = {}

    def of_instance(self, facts: Mapping[str, Any]) -> "Declared":
        """Return the declaration with an instance's facts filled in."""
        return self.model_validate(_filled(self.model_dump(), facts))

    def table_specs(self) -> tuple[TableSpec, ...]:
        """Return the tables."""
        return tuple(
            TableSpec(
                name=name,
                key=next(iter(self._fields(name))),
                about=self.table_abouts.get(name, ""),
                fields=tuple(
                    FieldSpec.model_validate({"name": field, "kind": "text"} | words)
                    for field, words in self._fields(name).items()
                ),
            )
            for name in self.tables
        )

    def _fields(self, table: str) -> dict[str, dict[str, Any]]:
        entries = self.tables.get(table, [])
        named = (each if isinstance(each, dict) else {each: {}} for each in entries)
        return {name: words for each in named for name, words in each.items()}

    def rule_specs(self) -> tuple[Rule, ...]:
        """Return the rules."""
        return tuple(
            Rule.model_validate({"id": name} | _words(words, "text"))
            for name, words in self.rules.items()
        )

    def tool_specs(self, code: str) -> tuple[ToolSpec, ...]:
        """The tools of a toolkit. Raises WrongDeclaration for a tool that is not in the code."""
        body = ast.parse(code).body
        functions = {each.name: each for each in body if isinstance(each, ast.FunctionDef)}
        if missing := self.tools.keys() - functions.keys():
            raise WrongDeclaration(f"tools.{min(missing)}: the toolkit has no such function")
        return tuple(
            self._tool(functions[name], _words(words, "about"))
            for name, words in self.tools.items()
        )

    def _tool(self, function: ast.FunctionDef, words: Mapping[str, Any]) -> ToolSpec:
        nodes = (node for line in function.body for node in ast.walk(line))
        reads = any(isinstance(node, ast.Name) and node.id == "db" for node in nodes)
        names: dict[str, tuple[str, ...]] = {}
        for key in ("changes", "returns"):
            parts = (each.partition(".*") for each in words.get(key, "").split())
            listed = (self._fields(name) if star else [name] for name, star, _ in parts)
            names[key] = tuple(chain.from_iterable(listed))
        kind = "WRITE" if names["changes"] else "READ" if reads else "GENERIC"
        parameters = _parameters(function, self.parameters | words.get("parameters", {}))
        return ToolSpec.model_validate(
            {"name": function.name, "kind": kind, "about": words["about"]}
            | {"parameters": parameters, **names}
        )


def _filled(value: Any, facts: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, facts) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, facts) for each in value]
    return value.format(**facts) if isinstance(value, str) else value


def _words(words: Words, main: str) -> dict[str, Any]:
    return {main: words} if isinstance(words, str) else words


def _parameters(function: ast.FunctionDef, words: Mapping[str, Words]) -> tuple[Parameter, ...]:
    """Return all parameters except the first, the database."""
    given, found = function.args.args[1:], []
    needed = len(given) - len(function.args.defaults)
    for position, each in enumerate(given):
        if each.arg not in words or each.annotation is None:
            raise WrongDeclaration(f"tools.{function.name}: {each.arg!r} has no words or no kind")
        kind = KINDS[ast.unparse(each.annotation)]
        known = {"name": each.arg, "kind": kind, "optional": position >= needed}
        found.append(Parameter.model_validate(known | _words(words[each.arg], "about")))
    return tuple(found)


class DeclaredProgram:
    """Base class of the programs; a subclass makes the records, tasks and solutions."""

    name: str
    version: str
    about: str
    knobs: Mapping[str, Knob]
    held_out: frozenset[str]
    folder: Path

    @cached_property
    def declared(self) -> Declared:
        """The content of `domain.yaml`. Raises WrongDeclaration."""
        return read_document(self.folder / "domain.yaml", WrongDeclaration).check(Declared)

    @cached_property
    def toolkit(self) -> str:
        """The source code of its tools and rules."""
        return (self.folder / "toolkit.py").read_text("utf-8")

    def domain(
        self, knobs: Knobs, records: Tables, declared: Declared | None = None, code: str = ""
    ) -> Domain:
        """Return an instance; `declared` and `code` default to those of the folder."""
        declared, code = declared or self.declared, code or self.toolkit
        return Domain(
            name=self.name,
            about=declared.policy,
            tables=declared.table_specs(),
            records=records,
            toolkit=code,
            tools=declared.tool_specs(code),
            rules=declared.rule_specs(),
            lineage={"program": self.name, "version": self.version, "knobs": dict(knobs)},
        )
