"""What the teacher is asked for, as pydantic models: the parts of a domain and of its tasks.

Calls have their arguments as a list of name and value, because structured outputs have no free-form
objects; the model of a table's records is the
domain's own (`record_model`).
"""

from pydantic import BaseModel, ConfigDict, Field

from tutti.tasks.synthesis.domains import Action, Rule, Scenario, TableSpec, ToolSpec
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
        """As a domain has it; an argument that is null is left out."""
        given = {each.name: each.value for each in self.arguments if each.value is not None}
        return Action(name=self.tool, arguments=given)


class TablesAnswer(_Answer):
    """The schema of a domain's database."""

    name: Name = Field(description="of the domain")
    about: str = Field(description="the domain in one sentence, the title of its policy")
    tables: tuple[TableSpec, ...]


class ToolAnswer(_Answer):
    """A tool, and a call of it that succeeds on the records."""

    spec: ToolSpec
    example: tuple[ArgumentAnswer, ...]

    @property
    def action(self) -> Action:
        """The example."""
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
    """What users of the domain want."""

    template: Name = Field(description="a short name of this kind of intent")
    intent: str


class TaskAnswer(_Answer):
    """A task."""

    scenario: Scenario
    calls: tuple[CallAnswer, ...]
    communicate: tuple[str, ...] = Field(description="facts that the agent must say")
    rules: tuple[Name, ...] = Field(description="ids of the rules that decide it")
    forbidden: tuple[CallAnswer, ...] = Field(description="calls that the policy forbids at first")
