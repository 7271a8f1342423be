"""The orchestrator of one attempt: its tools, the collected evidence, and the prompt of each turn.

Out: tools for the agent loop, and an `Agent` that rebuilds the prompt each turn. Calls of one turn
run concurrently; their results are added in the order of the calls, so that the same replies give
the same prompts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import orjson

from tutti.storage import now
from tutti.tasks.agents.loop import Agent
from tutti.tasks.agents.models.context import Message
from tutti.tasks.agents.models.model import ContextExceeded
from tutti.tasks.agents.orchestrator.agent_file import AgentFile, Caps, Expert
from tutti.tasks.agents.orchestrator.escalate import (
    AnswerTool,
    Consultation,
    Experts,
    TokenMeasures,
)
from tutti.tasks.agents.orchestrator.evidence import (
    FailureNote,
    Note,
    ProgramNote,
    SearchNote,
    Tokens,
    documents,
    evidence,
    merged,
    problem_text,
    program_messages,
    query_of,
    read_program,
    read_queries,
    search_messages,
)
from tutti.tasks.agents.orchestrator.offer import chosen, offered
from tutti.tasks.agents.tools.retrieve import Search
from tutti.tasks.agents.tools.tool import ToolResult, ToolUnavailable, refused
from tutti.tasks.sandbox import SandboxResult, SandboxUnavailable

ARGUMENT = "model"  # as in the training of the released orchestrators
QUESTION_TOOLS = ("search", "enhance_reasoning", "answer")


class CodeRunner(Protocol):
    """Runs programs (`tutti.tasks.sandbox.Sandbox`)."""

    async def run(self, code: str) -> SandboxResult:
        """Run a program. Raises SandboxUnavailable."""
        ...


@dataclass(frozen=True)
class ToolOutcome:
    """The outcome of one use of a tool."""

    summary: str
    """The text kept in `tool_runs`; the model reads the evidence in the next prompt instead."""
    notes: tuple[Note, ...] = ()
    status: str = "ok"
    error_type: str | None = None
    retrievals: tuple[Mapping[str, Any], ...] = ()
    final: str | None = None


class Orchestrator:
    """The tools of one attempt."""

    def __init__(
        self,
        file: AgentFile,
        problem: Sequence[Message],
        own: Agent,
        experts: Experts,
        search: Search,
        sandbox: CodeRunner,
    ) -> None:
        """`problem` has the first messages of a plain agent; `own` is its `Agent`. Raises
        ValueError for a problem that does not end with a question, or a file without the tool
        ``answer``."""
        if not problem or problem[-1]["role"] != "user":
            raise ValueError("an orchestrator needs a problem that ends with a user's question")
        if file.tools.answer is None:
            raise ValueError("the agent file has no tool `answer`, which questions need")
        self._file, self._problem, self._own = file, list(problem), own
        self._experts, self._search, self._sandbox = experts, search, sandbox
        self._measures = TokenMeasures()
        self._tools = {n: tool for n, tool in file.tools.given() if n in QUESTION_TOOLS}
        self._step, self._calls = 1, 0
        self._known: list[Note] = []
        self._new: dict[int, tuple[Note, ...]] = {}
        self.schemas: Sequence[Mapping[str, Any]] = [
            offered(name, tool, ARGUMENT, file.must_call) for name, tool in self._tools.items()
        ]

    @property
    def opening(self) -> list[Message]:
        """The first messages of the attempt, in place of the problem's own."""
        system = {"role": "system", "content": self._file.system}
        return [system, {"role": "user", "content": self._prompt("")}]

    @property
    def agent(self) -> Agent:
        """The problem's `Agent` with prompts rebuilt each turn."""
        file = self._file
        return replace(
            self._own, rebuild=self.rebuild, calls_a_turn=file.calls_a_turn, ledger=file.ledger
        )

    def rebuild(self, tokens: Tokens, errors: Sequence[str]) -> str:
        """The next turn's prompt. `tokens` counts like the orchestrator's engine; `errors` are
        those of unreadable calls of the last turn."""
        for call in sorted(self._new):
            self._known += self._new[call]
        self._known += [FailureNote("a turn", error) for error in errors]
        self._new.clear()
        self._step += 1
        caps, problem = self._caps(tokens), problem_text(self._problem)
        return self._prompt(evidence(self._known, caps, problem, tokens))

    def _caps(self, tokens: Tokens) -> Caps:
        """The file's caps, limited to the orchestrator's own context."""
        caps, context = self._file.prompt, self._own.context_tokens
        if context is None:
            return caps
        beside = tokens(self._file.system + orjson.dumps(self.schemas).decode())
        room = max(1, int(context - beside))
        least = room if caps.total_tokens is None else min(room, caps.total_tokens)
        return caps.model_copy(update={"total_tokens": least})

    def _prompt(self, found: str) -> str:
        many = self._file.calls_a_turn != 1
        names = ", ".join(self._tools)
        do = f"Call {'one or more' if many else 'one'} of the tools {names}, each with an expert."
        parts = [f"Problem:\n{problem_text(self._problem)}", found, do]
        return "\n\n".join(part for part in parts if part)

    async def use(self, name: str, arguments: str) -> ToolResult:
        """Let an expert run a call. Raises ToolUnavailable, ModelCallFailed."""
        self._calls += 1
        call, started_at = self._calls, now()
        try:
            if name not in self._tools:
                raise ValueError(f"no tool {name!r}; there are: {', '.join(self._tools)}")
            expert = chosen(name, self._tools[name], ARGUMENT, arguments)
        except ValueError as error:
            self._new[call] = (FailureNote(f"{name} {arguments:.80}", str(error)),)
            return refused(str(error))
        consultation = Consultation(self._experts, self._measures, self._step)
        tools = {"search": self._find, "enhance_reasoning": self._reason, "answer": self._answer}
        try:
            done = await tools[name](expert, consultation)
        except ContextExceeded as error:
            done = _failed(f"{expert.alias} cannot read so much: {error}"[:300], "context")
        if done.status != "ok" and not done.notes:
            done = replace(done, notes=(FailureNote(f"{name} by {expert.alias}", done.summary),))
        self._new[call] = done.notes
        return ToolResult(
            done.summary,
            done.status,
            started_at,
            now(),
            done.error_type,
            retrievals=done.retrievals,
            cost_usd=consultation.cost.usd,
            final=done.final,
        )

    async def _find(self, expert: Expert, consultation: Consultation) -> ToolOutcome:
        tool, problem = self._file.tools.search, problem_text(self._problem)
        assert tool is not None, "only an offered tool is called"
        asked = search_messages(tool, problem, self._found(expert))
        queries = read_queries(await consultation.ask(expert, asked), tool)
        # The question itself is a poor query, but better than a wasted turn.
        queries = queries or (query_of(problem, tool),)
        found = await self._search(queries, tool.results)
        hits = merged(found)
        known = {hit.text for hit in documents(self._known)}
        new = sum(hit.text not in known for hit in hits)
        summary = f"{len(hits)} documents, {new} of them new, for {', '.join(map(repr, queries))}"
        rows = tuple(each.row for each in found)
        return ToolOutcome(summary, (SearchNote(expert.alias, queries, hits),), retrievals=rows)

    async def _reason(self, expert: Expert, consultation: Consultation) -> ToolOutcome:
        asked = program_messages(problem_text(self._problem), self._found(expert))
        code = read_program(await consultation.ask(expert, asked))
        if code is None:
            return _failed(f"{expert.alias} wrote no program", "no_program")
        try:
            result = await self._sandbox.run(code)
        except SandboxUnavailable as error:
            raise ToolUnavailable(f"enhance_reasoning: {error}") from error
        output = result.output.rstrip("\n")
        status = {"ok": "ok", "timeout": "timeout"}.get(result.status, "error")
        kind = None if status == "ok" else result.status
        summary = f"```python\n{code}\n```\n{result.status}:\n{output}"
        return ToolOutcome(
            summary, (ProgramNote(expert.alias, code, output, result.status),), status, kind
        )

    async def _answer(self, expert: Expert, consultation: Consultation) -> ToolOutcome:
        answering = AnswerTool(
            self._tools["answer"],
            self._problem,
            tuple(self._known),
            self._own.read_answer,
            consultation,
            self._measures,
        )
        budget = self._file.escalate.budget_usd if self._file.escalate else None
        settled = await answering.settle(expert, budget)
        refusals = [f"{each.alias}: {each.answer} ({each.why})" for each in settled.refused]
        if settled.text is None:
            why = f"{settled.alias} gave no final answer in the form that is asked for"
            summary = "; ".join([*refusals, why])
            return replace(
                _failed(summary, "no_answer"),
                notes=(*settled.refused, FailureNote(f"answer by {settled.alias}", why)),
            )
        summary = "; ".join([*refusals, f"{settled.alias} answers"])
        return ToolOutcome(summary, settled.refused, final=settled.text)

    def _found(self, expert: Expert) -> str:
        tokens = self._measures.tokens(expert)
        return evidence(self._known, expert.caps, problem_text(self._problem), tokens)


def _failed(why: str, kind: str) -> ToolOutcome:
    return ToolOutcome(why, status="error", error_type=kind)
