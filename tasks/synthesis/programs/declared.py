"""What a program declares in its folder: `domain.yaml`, completed from the code in `toolkit.py`.

A tool's parameters, their kinds and the tool's own kind follow from the function of its name, which
is parsed and never run here; the file adds the words for them and what a tool returns and changes.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from tutti.tasks.config import read_document
from tutti.tasks.synthesis.domains import Domain, FieldSpec, Parameter, Rule, TableSpec, ToolSpec
from tutti.tasks.synthesis.programs.program import Knob, Knobs, Tables

KINDS = {
    "str": "text",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list[str]": "texts",
}
"""Of a parameter, by its annotation."""
Words = str | dict[str, Any]
"""Of something that has a name: its main text, or its fields."""


class WrongDeclaration(ValueError):
    """A program's file is wrong, or does not fit its toolkit."""


class Content(BaseModel):
    """What a program's file has."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Declared(Content):
    """The content of `domain.yaml`. The facts of an instance stand in braces."""

    policy: str = ""
    """The policy's title."""
    tables: dict[str, list[Words]] = {}
    """Each field is its name, or its name with what `FieldSpec` has; the first is the key."""
    table_abouts: dict[str, str] = {}
    parameters: dict[str, Words] = {}
    """For all tools; one may have its own."""
    tools: dict[str, Words] = {}
    """`returns` and `changes` are words; ``table.*`` is all fields of a table."""
    rules: dict[str, Words] = {}

    def of_instance(self, facts: Mapping[str, Any]) -> "Declared":
        """The same with an instance's facts."""
        return self.model_validate(_filled(self.model_dump(), facts))

    def table_specs(self) -> tuple[TableSpec, ...]:
        """The tables."""
        return tuple(map(self._table, self.tables))

    def _table(self, name: str) -> TableSpec:
        fields = tuple(
            FieldSpec.model_validate({"name": each, "kind": "text"} | words)
            for entry in self.tables[name]
            for each, words in _named(entry, {}).items()
        )
        about = self.table_abouts.get(name, "")
        return TableSpec(name=name, key=fields[0].name, about=about, fields=fields)

    def rule_specs(self) -> tuple[Rule, ...]:
        """The rules."""
        named = {name: _named(words, words, "text") for name, words in self.rules.items()}
        return tuple(Rule.model_validate({"id": name} | words) for name, words in named.items())

    def tool_specs(self, code: str) -> tuple[ToolSpec, ...]:
        """The tools of a toolkit. Raises WrongDeclaration for one that is not in the code."""
        body = ast.parse(code).body
        functions = {each.name: each for each in body if isinstance(each, ast.FunctionDef)}
        if missing := self.tools.keys() - functions.keys():
            raise WrongDeclaration(f"tools.{min(missing)}: the toolkit has no such function")
        return tuple(
            self._tool(functions[name], _named(words, words, "about"))
            for name, words in self.tools.items()
        )

    def _tool(self, function: ast.FunctionDef, words: Mapping[str, Any]) -> ToolSpec:
        nodes = (node for line in function.body for node in ast.walk(line))
        reads = any(isinstance(node, ast.Name) and node.id == "db" for node in nodes)
        names = {key: tuple(self._names(words.get(key, ""))) for key in ("changes", "returns")}
        return ToolSpec.model_validate(
            {
                "name": function.name,
                "kind": "WRITE" if names["changes"] else "READ" if reads else "GENERIC",
                "about": words["about"],
                "parameters": _parameters(function, self.parameters | words.get("parameters", {})),
                **names,
            }
        )

    def _names(self, words: str) -> Iterator[str]:
        for word in words.split():
            table, _, rest = word.partition(".")
            fields = self._table(table).fields if rest == "*" else ()
            yield from (field.name for field in fields) if fields else [word]


def _filled(value: Any, facts: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, facts) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, facts) for each in value]
    return value.format(**facts) if isinstance(value, str) else value


def _named(words: Words, alone: Any, main: str = "") -> dict[str, Any]:
    """The fields of something, of which a text gives just one."""
    return {main or words: alone} if isinstance(words, str) else words


def _parameters(function: ast.FunctionDef, words: Mapping[str, Words]) -> tuple[Parameter, ...]:
    """All but the database, which is the first."""
    given, optional = function.args.args[1:], len(function.args.defaults)
    found = []
    for position, each in enumerate(given):
        if each.arg not in words or each.annotation is None:
            raise WrongDeclaration(f"tools.{function.name}: {each.arg!r} has no words or no kind")
        about = _named(words[each.arg], words[each.arg], "about")
        kind, last = KINDS[ast.unparse(each.annotation)], len(given) - optional
        known = {"name": each.arg, "kind": kind, "optional": position >= last}
        found.append(Parameter.model_validate(known | about))
    return tuple(found)


class DeclaredProgram:
    """What the programs with a folder share; each makes records, tasks and solutions of its own."""

    name: str
    version: str
    about: str
    knobs: Mapping[str, Knob]
    held_out: frozenset[str]
    folder: Path

    @cached_property
    def declared(self) -> Declared:
        """What its folder declares. Raises WrongDeclaration."""
        return read_document(self.folder / "domain.yaml", WrongDeclaration).check(Declared)

    @cached_property
    def toolkit(self) -> str:
        """The code of its tools and rules."""
        return (self.folder / "toolkit.py").read_text("utf-8")

    def domain(
        self, knobs: Knobs, records: Tables, declared: Declared | None = None, code: str = ""
    ) -> Domain:
        """An instance; `declared` and `code` where they are not just those of the folder."""
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
