"""A tau2 domain that can be executed: its databases, and tools given as a Python module.

A tool is a function of a `State` and its arguments; the databases are plain JSON, so two states are
equal if their values are. To add a domain: a module with a `Toolset`, and a line in
`benchmark.TOOLSETS`.
"""

import copy
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from tutti.tasks.benchmarks.benchmark import tool
from tutti.tasks.benchmarks.errors import BenchmarkError
from tutti.tasks.benchmarks.tau2.domain import SIDES, Domain, Tau2Task
from tutti.tasks.benchmarks.world import CallRefused

JSON_TYPES: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}


@dataclass
class State:
    """The databases of one session."""

    db: dict[str, Any]
    user_db: dict[str, Any]


Act = Callable[..., Any]
"""A tool: ``act(state, **arguments)``; returns the caller's result. Raises CallRefused."""


@dataclass(frozen=True)
class Toolset:
    """A domain's tools."""

    agent: Mapping[str, Act]
    user: Mapping[str, Act] = field(default_factory=dict)
    """What the simulated user can do on a device of its own."""
    hidden: Mapping[str, Act] = field(default_factory=dict)
    """Functions that only tasks call: set-up, and assertions, which return true or false."""

    def named(self, side: str, name: str, hidden: bool = False) -> Act | None:
        """Return the tool `name` of `side` (one of `SIDES`); None if there is none."""
        own = self.agent if side == SIDES[0] else self.user
        return own.get(name) or (self.hidden.get(name) if hidden else None)

    def schemas(self, side: str) -> list[dict[str, Any]]:
        """The tools of `side` in OpenAI's form of functions, from signatures and docstrings."""
        own = self.agent if side == SIDES[0] else self.user
        return [_schema(name, act) for name, act in own.items()]


class Session:
    """One attempt at a task, from the task's initial state."""

    def __init__(self, domain: Domain, toolset: Toolset, task: Tau2Task) -> None:
        """Set up the databases as the task says: its data, its actions, the calls of its history.
        Raises BenchmarkError if a tool refuses: then data and tools do not match."""
        self.toolset = toolset
        self.task = task
        self.made: list[tuple[str, str, dict[str, Any]]] = []
        """The successful calls since the start: side, name, arguments."""
        data = task.initial_state.get("initialization_data") or {}
        self.state = State(
            _merged(domain.db, data.get("agent_data") or {}),
            _merged(domain.user_db, data.get("user_data") or {}),
        )
        try:
            for action in task.initial_state.get("initialization_actions") or ():
                side = action.get("env_type", SIDES[0])
                self._act(side, action["func_name"], action["arguments"], hidden=True)
            for message in task.initial_state.get("message_history") or ():
                for call in message.get("tool_calls") or ():
                    self._act(message["role"], call["name"], call["arguments"])
        except CallRefused as refused:
            raise BenchmarkError(f"task {task.id}: its set-up: {refused}") from refused

    def call(self, side: str, name: str, arguments: Mapping[str, Any]) -> str:
        """Run one call of the agent or the user; return the result as text. Raises CallRefused with
        a message for the caller; then nothing has changed."""
        result = self._act(side, name, arguments)
        self.made.append((side, name, dict(arguments)))
        return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)

    def outcome(self, said: str = "") -> dict[str, Any]:
        """Return the outcome in the form that the scorer ``state`` compares; `said` is all of the
        agent's messages to the user. ``db`` is the agent's database (DB), with ``user_db`` if the
        gold trajectory acts on the user's side; ``assertions``, ``communicated`` and ``actions``
        are true or false for each that the task lists (ENV_ASSERTION, COMMUNICATE, ACTION).
        NL_ASSERTION needs a judge."""
        task, found = self.task, dict[str, Any]()
        if "DB" in task.rewards:
            found["db"] = copy.deepcopy(self.state.db)
            if any(action["requestor"] == SIDES[1] for action in task.actions):
                found["user_db"] = copy.deepcopy(self.state.user_db)
        if "ENV_ASSERTION" in task.rewards:
            found["assertions"] = [self._holds(one) for one in task.env_assertions]
        if "COMMUNICATE" in task.rewards:
            plain = said.casefold().replace(",", "")
            found["communicated"] = [one.casefold() in plain for one in task.communicate]
        if "ACTION" in task.rewards:
            found["actions"] = [self._was_made(action) for action in task.actions]
        return found

    def _holds(self, assertion: Mapping[str, Any]) -> bool:
        try:
            side, name = assertion["env_type"], assertion["name"]
            found = bool(self._act(side, name, assertion["arguments"], hidden=True))
        except CallRefused:
            return False  # the object of the assertion does not exist
        return found is assertion["expected"]

    def _was_made(self, action: Mapping[str, Any]) -> bool:
        """Whether a call matches a gold action: in all arguments, or in those that the action
        compares."""
        counted = action.get("compare_args")
        gold = action["arguments"]
        return any(
            (side, name) == (action["requestor"], action["name"])
            and _only(arguments, counted) == _only(gold, counted)
            for side, name, arguments in self.made
        )

    def _act(self, side: str, name: str, arguments: Mapping[str, Any], hidden: bool = False) -> Any:
        act = self.toolset.named(side, name, hidden)
        if act is None:
            raise CallRefused(f"there is no tool {name!r}")
        _check(name, act, arguments)
        before = copy.deepcopy(self.state)
        try:
            return act(self.state, **arguments)
        except CallRefused:
            self.state = before
            raise


def gold_outcome(domain: Domain, toolset: Toolset, task: Tau2Task) -> dict[str, Any]:
    """Return the outcome of a correct attempt: the state after the gold actions, and everything
    else true. Raises BenchmarkError if a gold action is refused."""
    session = Session(domain, toolset, task)
    for action in task.actions:
        try:
            session.call(action["requestor"], action["name"], action["arguments"])
        except CallRefused as refused:
            what = f"task {task.id}, gold action {action['action_id']}"
            raise BenchmarkError(f"{what}: {refused}") from refused
    outcome = session.outcome()
    flags = ("assertions", "communicated", "actions")
    return {name: [True] * len(v) if name in flags else v for name, v in outcome.items()}


def _only(arguments: Mapping[str, Any], names: Sequence[str] | None) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if names is None or name in names}


def _check(name: str, act: Act, arguments: Mapping[str, Any]) -> None:
    """Raise CallRefused for unknown arguments, or arguments of another type."""
    try:
        inspect.signature(act).bind(None, **arguments)
    except TypeError as error:
        raise CallRefused(f"{name}: {error}") from error
    hints = get_type_hints(act)
    for argument, value in arguments.items():
        wanted = hints.get(argument)
        if wanted in JSON_TYPES and type(value) is not wanted:
            raise CallRefused(f"{name}: {argument} must be of type {JSON_TYPES[wanted]}")


def _merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """`base` merged with `more` at every depth; lists and values are replaced."""
    made = copy.deepcopy(dict(base))
    for name, value in more.items():
        inner = made.get(name)
        both = isinstance(inner, dict) and isinstance(value, Mapping)
        made[name] = _merged(inner or {}, value) if both else copy.deepcopy(value)
    return made


def _schema(name: str, act: Act) -> dict[str, Any]:
    parameters: Sequence[inspect.Parameter] = list(inspect.signature(act).parameters.values())[1:]
    hints = get_type_hints(act)
    properties = {
        parameter.name: {"type": JSON_TYPES.get(hints.get(parameter.name), "string")}
        for parameter in parameters
    }
    required = [one.name for one in parameters if one.default is inspect.Parameter.empty]
    schema = {"type": "object", "properties": properties, "required": required}
    return tool(name, inspect.getdoc(act) or "", schema)
