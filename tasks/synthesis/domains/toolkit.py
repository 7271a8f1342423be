"""A domain's toolkit in the sandbox: many programs, each with its own database.

In: a domain. Out: the results of its tools, its rules' verdicts, hashes of states. One interpreter
serves all programs of a `Toolkit`; a request has operations of many. A domain's code runs only
here.
"""

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tutti.errors import TuttiError
from tutti.tasks.sandbox import SandboxLimits, SandboxSession, level_for_models
from tutti.tasks.synthesis.domains import shared, source
from tutti.tasks.synthesis.domains.domain import Action, Domain, DomainTask

LIMITS = SandboxLimits(
    seconds=60.0, memory_mb=1024, total_mb=1536, output_chars=64_000_000, file_mb=8
)
"""Limits of one request."""
SENT = {each.__name__: inspect.getsource(each) for each in (shared, source)}
LOAD = """
import json, sys, types
for name, text in json.loads({sent!r}).items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
serve, host = module.serve, module.Host({toolkit!r}, json.loads({records!r}))
"""


Rules = Mapping[str, Sequence[str]]
"""By tool, the functions of the rules that judge its calls."""
REPLAY = "replay"
"""The program that replays; it ends with each task."""


class ToolkitFailed(TuttiError, RuntimeError):
    """A domain's code could not be loaded, or ended its interpreter."""


@dataclass(frozen=True)
class Result:
    """The result of a tool call."""

    status: Literal["ok", "refused", "failed", "missing"]
    """refused: by the tool itself, or for its arguments; failed: its code is wrong."""
    value: Any
    """The returned value, else the reason why there is none."""
    changes: tuple[str, ...] = ()
    """``table.field`` it changed, or ``table`` for records that came or went."""

    @property
    def text(self) -> str:
        """The text that an agent reads."""
        if self.status != "ok":
            return f"error: {self.value}"
        return self.value if isinstance(self.value, str) else json.dumps(self.value)


@dataclass(frozen=True)
class Act:
    """A call by a program."""

    program: str
    action: Action


@dataclass(frozen=True)
class Replay:
    """The result of a task's calls in a new database."""

    results: tuple[Result, ...]
    before: str
    """`state_hash` of the database when the task begins."""
    after: str
    of_forbidden: tuple[tuple[Result, ...], ...] = ()
    """The rules' verdicts on each forbidden call when the task begins, where they were asked."""
    of_golden: tuple[tuple[Result, ...], ...] = ()
    """The rules' verdicts on each golden call before it is made, where they were asked."""

    @property
    def failure(self) -> str:
        """The first call that did not succeed and why; empty if all did."""
        wrong = next(((n, r) for n, r in enumerate(self.results, 1) if r.status != "ok"), None)
        return "" if wrong is None else f"call {wrong[0]}: {wrong[1].status}: {wrong[1].value}"


class Toolkit:
    """A domain's code in an interpreter, as an async context manager. Requests run one at a
    time."""

    def __init__(self, domain: Domain, limits: SandboxLimits = LIMITS) -> None:
        """Raises SandboxUnavailable if no sandbox level may be used."""
        self.domain = domain
        self._session = SandboxSession(level_for_models(), limits)

    async def __aenter__(self) -> "Toolkit":
        """Load the code. Raises ToolkitFailed with the traceback's last line."""
        records, sent = json.dumps(self.domain.records), json.dumps(SENT)
        code = LOAD.format(sent=sent, toolkit=self.domain.toolkit, records=records)
        result = await self._session.run(code)
        if result.status != "ok":
            await self._session.close()
            why = _last_line(result.output) or result.status
            raise ToolkitFailed(f"{self.domain.name}: toolkit: {why}")
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the interpreter."""
        await self._session.close()

    async def request(self, operations: Sequence[Sequence[Any]]) -> list[Any]:
        """Run operations of `source.Host`, in order. Raises ToolkitFailed."""
        result = await self._session.run(f"serve(host, {json.dumps(operations)!r})")
        line = result.stdout.rpartition(source.MARK)[2]
        if result.restarted or result.status != "ok" or not line:
            why = result.restarted or _last_line(result.output) or result.status
            raise ToolkitFailed(f"{self.domain.name}: the toolkit ended its interpreter: {why}")
        found: list[Any] = json.loads(line)
        return found

    async def begin(self, programs: Mapping[str, DomainTask]) -> None:
        """Give programs the initial databases of their tasks."""
        await self.request([["begin", name, task.world.changed] for name, task in programs.items()])

    async def act(self, acts: Sequence[Act]) -> list[Result]:
        """Run calls, in order."""
        replies = await self.request(
            [["call", each.program, each.action.name, each.action.arguments] for each in acts]
        )
        return [_result(reply) for reply in replies]

    async def end(self, programs: Sequence[str]) -> None:
        """Delete the databases of programs."""
        await self.request([["end", name] for name in programs])

    async def replay(self, tasks: Sequence[DomainTask], ask_rules: bool = False) -> list[Replay]:
        """Run each task's golden calls in a new database of its own. With `ask_rules`, every rule
        that is a function is also called on each call that may write."""
        if not tasks:
            return []
        rules: Rules | None = None
        if ask_rules:
            functions = [rule.function for rule in self.domain.rules if rule.function is not None]
            rules = {tool.name: functions for tool in self.domain.tools if tool.kind == "WRITE"}
        operations = [each for task in tasks for each in _operations(task, rules)]
        replies = iter(await self.request(operations))
        return [_replay(task, rules, replies) for task in tasks]


def _operations(task: DomainTask, rules: Rules | None) -> Iterator[list[Any]]:
    yield ["begin", REPLAY, task.world.changed]
    yield ["hash", REPLAY]
    for action in task.world.forbidden if rules is not None else ():
        yield from _asks(action, rules or {})
    for action in task.world.actions:
        yield from _asks(action, rules or {})
        yield ["call", REPLAY, action.name, action.arguments]
    yield ["hash", REPLAY]
    yield ["end", REPLAY]


def _asks(action: Action, rules: Rules) -> Iterator[list[Any]]:
    if functions := rules.get(action.name):
        yield ["ask_all", REPLAY, functions, action.name, action.arguments]


def _replay(task: DomainTask, rules: Rules | None, replies: Iterator[Any]) -> Replay:

    def verdicts_on(action: Action) -> tuple[Result, ...]:
        asked = rules is not None and rules.get(action.name)
        return tuple(_result(reply) for reply in next(replies)) if asked else ()

    _, before = next(replies), next(replies)
    of_forbidden = tuple(map(verdicts_on, task.world.forbidden)) if rules is not None else ()
    made = [(verdicts_on(action), _result(next(replies))) for action in task.world.actions]
    after, _ = next(replies), next(replies)
    of_golden, results = tuple(each for each, _ in made), tuple(each for _, each in made)
    return Replay(results, before, after, of_forbidden, of_golden)


def _result(reply: Mapping[str, Any]) -> Result:
    return Result(reply["status"], reply["value"], tuple(reply.get("changes", ())))


def _last_line(output: str) -> str:
    return next((line for line in reversed(output.splitlines()) if line.strip()), "")
