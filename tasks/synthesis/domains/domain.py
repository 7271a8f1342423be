"""A domain as data: tables and records, tools, policy rules, tasks.

In: a generator's proposal. Out: values that can be checked, hashed and written as files. Only
`Domain.toolkit` is code, and it runs in the sandbox only (`Toolkit`).
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from tutti.storage import content_hash
from tutti.tasks.synthesis.domains.offer import TaskOffer
from tutti.tasks.task_sets import Task

PREFERENCE = "preference"
"""The attribute with the weights of a task's preference, JSON. The training's reward reads it."""
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
"""A name of a table, field, tool or rule; a Python identifier in lower case."""
Kind = Literal["text", "integer", "number", "boolean", "date", "texts"]
"""The kind of a value; a date is ISO 8601 text, texts are a list of text."""
Split = Literal["train", "validation", "test"]
Records = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Records by table and key. A record has every field of its table; an optional one may be null."""


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FieldSpec(_Frozen):
    """A field of a table."""

    name: Name
    kind: Kind
    about: str = ""
    one_of: tuple[str, ...] = Field((), description="the only values, where there are few")
    refers_to: str = Field("", description="a table whose key it holds, or each of its texts does")
    least: float | None = None
    most: float | None = None
    optional: bool = Field(False, description="whether it may be null")


class TableSpec(_Frozen):
    """A table; the field `key` identifies its records."""

    name: Name
    key: Name
    about: str = ""
    fields: tuple[FieldSpec, ...]


class Parameter(_Frozen):
    """A parameter of a tool."""

    name: Name
    kind: Kind
    about: str
    optional: bool = False


class ToolSpec(_Frozen):
    """A tool as an agent sees it, and its declared effects."""

    name: Name
    kind: Literal["READ", "WRITE", "GENERIC"]
    """READ and GENERIC change nothing; GENERIC does not look at the database either."""
    about: str
    parameters: tuple[Parameter, ...] = ()
    changes: tuple[str, ...] = Field(
        (), description="what a WRITE may change: `table.field`, or `table` for new records"
    )
    returns: tuple[str, ...] = Field((), description="the keys of its result, if it is an object")

    @property
    def schema_of(self) -> dict[str, Any]:
        """The tool in OpenAI's format."""
        properties = {
            each.name: {**JSON_TYPES[each.kind], "description": each.about}
            for each in self.parameters
        }
        required = [each.name for each in self.parameters if not each.optional]
        parameters = {"type": "object", "properties": properties, "required": required}
        function = {"name": self.name, "description": self.about, "parameters": parameters}
        return {"type": "function", "function": function}


JSON_TYPES: Mapping[str, Mapping[str, Any]] = {
    "text": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string"},
    "texts": {"type": "array", "items": {"type": "string"}},
}


class Rule(_Frozen):
    """One rule of the policy: a sentence for the agent, and a function of the toolkit.

    ``function(db, name, arguments)`` is called before each call of a WRITE tool; it returns why the
    rule forbids the call, or "".
    """

    id: Name
    text: str
    function: Name | None = Field(None, description="None: a rule that no program can check")


class Action(_Frozen):
    """A call of a tool."""

    name: Name
    arguments: dict[str, Any] = Field(default_factory=dict)


class Scenario(_Frozen):
    """The instructions of the simulated user, which the agent does not see."""

    reason: str = Field(description="why the user calls, in the user's words")
    known: str = Field("", description="what the user knows: names, numbers")
    unknown: str = ""
    instructions: str = ""
    persona: str = ""

    @property
    def text(self) -> str:
        """The whole scenario, one line per field."""
        return "\n".join(filter(None, (self.reason, self.known, self.unknown, self.instructions)))


class DomainSpec(_Frozen):
    """The world of a domain's task: the user's request, and the conditions of success."""

    domain: str
    """`Domain.domain_id`: the same words about another database are another task."""
    scenario: Scenario
    actions: tuple[Action, ...]
    """The golden calls, in order."""
    communicate: tuple[str, ...] = ()
    """Facts that the agent must have said."""
    expected: str = ""
    """`state_hash` of the database after the golden calls."""
    rules: tuple[str, ...] = ()
    """Ids of the rules that decide it."""
    forbidden: tuple[Action, ...] = ()
    """Calls that the policy forbids in the state that the task begins with."""
    tools: tuple[str, ...] = ()
    """The tools offered; all of the domain's where empty."""
    changed: dict[str, dict[str, dict[str, Any]]] = Field(default_factory=dict)
    """Fields of records that differ from the domain's when the task begins."""
    evolved_from: str = ""
    offer: TaskOffer | None = None

    @property
    def question(self) -> str:
        """The question, with the instruction of its offer at its end."""
        instruction = "" if self.offer is None else self.offer.preference.instruction
        return "\n\n".join(filter(None, (self.scenario.text, instruction)))

    @property
    def answer(self) -> str:
        """The facts, for people."""
        return "; ".join(self.communicate)

    @property
    def content(self) -> list[Any]:
        """The question and its expected result."""
        asked = [self.domain, self.scenario.model_dump(), self.changed, list(self.tools)]
        if self.offer is not None:
            asked.append(self.offer.model_dump())
        return [*asked, [each.model_dump() for each in self.actions], list(self.communicate)]


DomainTask = Task[DomainSpec]
"""A task of a domain."""


def changed_task(task: DomainTask, /, **changes: Any) -> DomainTask:
    """A copy of the task with other fields, its world's or its own, and therefore another id."""
    inside = {name: changes.pop(name) for name in [*changes] if name in DomainSpec.model_fields}
    world = task.world.model_copy(update=inside)
    return replace(task, world=world, stored_id="", **changes)


class Domain(_Frozen):
    """A domain without its tasks."""

    name: Name
    about: str
    tables: tuple[TableSpec, ...]
    records: dict[str, dict[str, dict[str, Any]]]
    toolkit: str
    """Python with the standard library: a function ``tool(db, **arguments)`` a tool and one a rule.
    ``ToolError`` is given to it; a tool raises it to refuse a call."""
    tools: tuple[ToolSpec, ...]
    rules: tuple[Rule, ...] = ()
    lineage: dict[str, Any] = Field(default_factory=dict)
    """Its generator, version, seed and knobs, or a teacher's model and prompts."""

    @property
    def tool_named(self) -> Mapping[str, ToolSpec]:
        """The tools by name."""
        return {each.name: each for each in self.tools}

    @property
    def policy(self) -> str:
        """The policy as the agent reads it."""
        lines = [f"# {self.about}", "", *(f"- {rule.text}" for rule in self.rules)]
        return "\n".join(lines) + "\n"

    @cached_property
    def domain_id(self) -> str:
        """Content hash without the lineage, cached because every task needs it."""
        return content_hash(self.model_dump(mode="json", exclude={"lineage"}))

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy the model; the copy's id is computed anew."""
        copy = super().model_copy(update=update, deep=deep)
        copy.__dict__.pop("domain_id", None)
        return copy

    def schemas(self, task: DomainTask) -> list[dict[str, Any]]:
        """Return the agent's tools in a task, in OpenAI's format, with the task's own prices."""
        specs, offer = self.offered(task), task.world.offer
        if offer is not None:
            specs = tuple(
                each.model_copy(update={"about": offer.about(each.name, each.about)})
                for each in specs
            )
        return [each.schema_of for each in specs]

    def offered(self, task: DomainTask) -> tuple[ToolSpec, ...]:
        """Return the agent's tools in a task."""
        return tuple(t for t in self.tools if not task.world.tools or t.name in task.world.tools)
