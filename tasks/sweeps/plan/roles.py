"""The roles of a sweep besides the measured model: judge, user, an agent's experts.

In: a suite, and the address of each model. Out: the roles' models, for ids and for attempts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tutti.tasks.agents.orchestrator import AgentFile, AgentFileError, read_agent
from tutti.tasks.serving.registry import Model
from tutti.tasks.sweeps.spec import Suite, SuiteError


@dataclass(frozen=True)
class ServedModel:
    """A model of the registry with its address."""

    name: str
    """The entry's name, which calls give."""
    engine_id: str
    model: Model

    @property
    def content(self) -> list[Any]:
        """The content for ids."""
        return [self.engine_id, self.model.asked]


@dataclass(frozen=True)
class Roles:
    """The models of a sweep's roles, besides the measured model."""

    WARM: ClassVar[float] = 1.0
    """The temperature of users, and of judges whose rule states none: votes differ by their seeds,
    and every provider takes it."""
    judge: ServedModel | None = None
    user: ServedModel | None = None
    agent: AgentFile | None = None
    """How the measured model asks experts; None where it works alone."""
    experts: Mapping[str, ServedModel] = field(default_factory=dict)
    """By the name that the agent's file has for them."""

    @property
    def content(self) -> dict[str, Any]:
        """The content for ids; empty if there are no roles."""
        named = {"judge": self.judge, "user": self.user}
        found: dict[str, Any] = {role: one.content for role, one in named.items() if one}
        if self.agent is not None:
            found["agent"] = self.agent.agent_id
            found["experts"] = {name: one.content for name, one in sorted(self.experts.items())}
        return found

    @property
    def engine_ids(self) -> list[str]:
        """The ids of their engines, each once."""
        every = [self.judge, self.user, *self.experts.values()]
        return sorted({one.engine_id for one in every if one is not None})


NO_ROLES = Roles()


def other_models(suite: Suite) -> list[str]:
    """Return names in the registry of the models that `suite` needs besides the measured one.

    Raises SuiteError, also for an agent's file.
    """
    _, experts = _agent(suite)
    named = (suite.roles.judge, suite.roles.user, *experts.values())
    return sorted({name for name in named if name is not None})


def roles_of(suite: Suite, served: Mapping[str, ServedModel]) -> Roles:
    """Return the roles of `suite`, whose models are `served` by their names in the registry."""
    named, (file, experts) = suite.roles, _agent(suite)
    return Roles(
        judge=None if named.judge is None else served[named.judge],
        user=None if named.user is None else served[named.user],
        agent=file,
        experts={own: served[name] for own, name in experts.items()},
    )


def _agent(suite: Suite) -> tuple[AgentFile | None, dict[str, str]]:
    """Return the agent's file, and the registry's name of each model that the file names."""
    try:
        file = None if suite.roles.agent is None else read_agent(suite.roles.agent)
    except AgentFileError as error:
        raise SuiteError(f"roles.agent: {error}") from error
    names = sorted(file.models) if file is not None else []
    if unknown := sorted(suite.roles.experts.keys() - set(names)):
        raise SuiteError(
            f"roles.experts: {', '.join(unknown)}: the agent's file names "
            f"{', '.join(names) or 'none'}"
        )
    return file, {name: suite.roles.experts.get(name, name) for name in names}
