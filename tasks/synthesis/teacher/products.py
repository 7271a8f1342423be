"""The teacher's answers as pydantic models, and checks of tables and records.

Calls have their arguments as a list of name and value, because structured outputs have no free-form
objects; a table's records have the domain's own model (`record_model`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tutti.tasks.synthesis.domains import Action, Rule, Scenario, TableChecks, TableSpec, ToolSpec
from tutti.tasks.synthesis.domains.domain import Name

Value = str | int | float | bool | list[str] | None


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ArgumentAnswer(_Answer):
    """An argument of a call."""

    name: Name
    value: Value


class CallAnswer(_Answer):
    """A call of a tool."""

    tool: Name
    arguments: tuple[ArgumentAnswer, ...]

    @property
    def action(self) -> Action:
        """Return the call as an action of a domain; null arguments are left out."""
        given = {each.name: each.value for each in self.arguments if each.value is not None}
        return Action(name=self.tool, arguments=given)


class TablesAnswer(_Answer):
    """The schema of a domain's database."""

    name: Name = Field(description="of the domain")
    about: str = Field(description="the domain in one sentence, the title of its policy")
    tables: tuple[TableSpec, ...]


class ToolAnswer(_Answer):
    """A tool, and an example call that succeeds on the records."""

    spec: ToolSpec
    example: tuple[ArgumentAnswer, ...]

    @property
    def action(self) -> Action:
        """Return the example call."""
        return CallAnswer(tool=self.spec.name, arguments=self.example).action


class ToolkitAnswer(_Answer):
    """The tools and their code."""

    code: str
    tools: tuple[ToolAnswer, ...]


class RuleAnswer(_Answer):
    """A rule, and a call that its function forbids on the records."""

    rule: Rule
    forbids: CallAnswer | None = Field(description="null where the rule has no function")


class PolicyAnswer(_Answer):
    """The rules and the code of their functions."""

    code: str
    rules: tuple[RuleAnswer, ...]


class IntentAnswer(_Answer):
    """A kind of request that users of the domain have."""

    template: Name = Field(description="a short name of this kind of intent")
    intent: str


class TaskAnswer(_Answer):
    """A task."""

    scenario: Scenario
    calls: tuple[CallAnswer, ...]
    communicate: tuple[str, ...] = Field(description="facts that the agent must say")
    rules: tuple[Name, ...] = Field(description="ids of the rules that decide it")
    forbidden: tuple[CallAnswer, ...] = Field(description="calls that the policy forbids at first")


Ids = Mapping[str, Sequence[str]]
"""By table, the keys that its records have."""


def tables_reason(answer: TablesAnswer) -> str:
    """Return why the tables do not fit together, or an empty string."""
    names = [table.name for table in answer.tables]
    reasons = [f"two tables are called {name!r}" for name in _twice(names)]
    if not names:
        reasons.append("there is no table")
    for table in answer.tables:
        reasons += _table_reasons(table, names)
    return "\n".join(reasons)


def _table_reasons(table: TableSpec, names: Sequence[str]) -> list[str]:
    fields = {each.name: each for each in table.fields}
    reasons = [f"{table.name}: two fields {n!r}" for n in _twice([f.name for f in table.fields])]
    key = fields.get(table.key)
    if key is None:
        reasons.append(f"{table.name}: its key {table.key!r} is not one of its fields")
    elif key.kind != "text" or key.optional or key.refers_to:
        reasons.append(f"{table.name}.{key.name}: a key is text, not optional, and refers nowhere")
    for each in table.fields:
        where = f"{table.name}.{each.name}"
        if each.refers_to and each.refers_to not in names:
            reasons.append(f"{where}: refers to {each.refers_to!r}, which is no table")
        if each.refers_to and each.kind not in ("text", "texts"):
            reasons.append(f"{where}: a field that refers to a table is text or texts")
        if each.one_of and each.kind not in ("text", "texts"):
            reasons.append(f"{where}: one_of is for text and texts")
        if each.least is not None and each.most is not None and each.least > each.most:
            reasons.append(f"{where}: least {each.least} is more than most {each.most}")
    return reasons


def _twice(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def given_ids(tables: Sequence[TableSpec], count: int) -> dict[str, list[str]]:
    """Return the keys for each table's records: its initials, distinct among the tables, and a
    number."""
    ids: dict[str, list[str]] = {}
    taken: set[str] = set()
    for table in tables:
        short = table.name.replace("_", "").upper()
        size = next(n for n in range(2, len(short) + 2) if short[:n] not in taken or n > len(short))
        prefix = short[:size] if short[:size] not in taken else f"{short}{len(taken)}"
        taken.add(prefix)
        ids[table.name] = [f"{prefix}{number:04d}" for number in range(1, count + 1)]
    return ids


def record_reason(checks: TableChecks, record: Mapping[str, Any], ids: Ids) -> str:
    """Return why a record is wrong, also by the gates' checks, or an empty string."""
    table = checks.table
    key = record.get(table.key)
    own = [] if key in ids[table.name] else [f"{table.key}: {key!r} is not one of the given ids"]
    return "; ".join([*own, *checks.faults(record, ids)])
