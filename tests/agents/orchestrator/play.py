"""Scripted models, a search and agent files for the tests of the orchestrator."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tests.agents.held import hold
from tutti.tasks.agents.loop import Agent, AttemptLimits, Trajectory, run_attempt
from tutti.tasks.agents.models.model import Message, Reply
from tutti.tasks.agents.orchestrator import AgentFile, Expert, Orchestrator
from tutti.tasks.agents.tools.retrieve import Hit, SearchResult
from tutti.tasks.agents.tools.tool import Environment
from tutti.tasks.sandbox import SandboxResult

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PROBLEM: list[Message] = [
    {"role": "system", "content": "Put it in \\boxed{}."},
    {"role": "user", "content": "What is asked?"},
]


class Script:
    """Model that plays texts or messages in order; an exception in the list is raised."""

    def __init__(self, *replies: str | Message | Exception, cost_usd: float | None = 0.0) -> None:
        self.replies, self.cost_usd = list(replies), cost_usd
        self.seen: list[list[Message]] = []
        self.tools: list[Sequence[Mapping[str, Any]]] = []
        self.steps: list[int] = []

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        step: int,
        positions: Sequence[int] | None = None,
    ) -> Reply:
        self.seen.append([dict(message) for message in messages])
        self.tools.append(tools)
        self.steps.append(step)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        message = {"role": "assistant", "content": reply} if isinstance(reply, str) else reply
        hold(0.5)
        return Reply(message, f"call-{step}", 10, 0, 3, cost_usd=self.cost_usd)

    def prompt(self, place: int = -1) -> str:
        """Return the last message of the prompt at `place`."""
        return str(self.seen[place][-1]["content"])


def call(name: str, alias: str | None = None, **others: Any) -> Message:
    given = ({"model": alias} if alias else {}) | others
    return calls((name, json.dumps(given)))


def calls(*made: tuple[str, str]) -> Message:
    """Return a message with several calls, given as names and arguments in text form."""
    named = [
        {"id": f"id-{place}", "type": "function", "function": {"name": n, "arguments": given}}
        for place, (n, given) in enumerate(made)
    ]
    return {"role": "assistant", "content": "", "tool_calls": named}


def expert(model: str, price: float = 1.0, **given: Any) -> dict[str, Any]:
    """Return an expert's entry as in an agent file."""
    usual = {"latency_s": 1, "skills": f"{model} is good.", "max_tokens": 100}
    return {"model": model, "prices": {"prompt": price, "completion": price}} | usual | given


def agent_file(**given: Any) -> AgentFile:
    """Return a file with two experts per tool, cheap (2) and expensive (1); `given` replaces its
    fields."""
    tools = {
        "search": {
            "description": "Find.",
            "results": 3,
            "experts": {"search-1": expert("big", 5), "search-2": expert("small")},
        },
        "enhance_reasoning": {
            "description": "Compute.",
            "experts": {"reasoner-1": expert("big", 5), "reasoner-2": expert("coder")},
        },
        "answer": {
            "description": "Answer.",
            "experts": {"answer-1": expert("big", 5), "answer-2": expert("small")},
        },
        "call_expert": {"description": "Hand over.", "experts": {"expert-1": expert("big", 5)}},
    }
    return AgentFile.model_validate({"system": "Choose.", "ledger": False, "tools": tools} | given)


class Found:
    """Search with scripted results that records its queries."""

    def __init__(self, *batches: Sequence[tuple[str, str]]) -> None:
        self.batches = list(batches)
        self.asked: list[tuple[str, ...]] = []

    async def __call__(self, queries: Sequence[str], results: int) -> Sequence[SearchResult]:
        self.asked.append(tuple(queries))
        return [self._one(query) for query in queries]

    def _one(self, query: str) -> SearchResult:
        batch = self.batches.pop(0) if self.batches else []
        hits = tuple(Hit(name, text, 1.0 / rank) for rank, (name, text) in enumerate(batch, 1))
        row = {"index_id": "index:1", "query": query, "doc_ids": [hit.id for hit in hits]}
        return SearchResult(hits, row | {"scores": [hit.score for hit in hits], "latency_s": 0.1})


class Runner:
    """Sandbox with scripted results."""

    def __init__(self, *results: SandboxResult) -> None:
        self.results = list(results)
        self.ran: list[str] = []

    async def run(self, code: str) -> SandboxResult:
        self.ran.append(code)
        return self.results.pop(0)


def experts_of(models: Mapping[str, Script]) -> Callable[[Expert], Script]:
    """Map an expert to the scripted model that its file entry names."""
    return lambda expert: models[expert.model]


def play(
    orchestrator: Script,
    models: Mapping[str, Script],
    file: AgentFile | None = None,
    search: Found | None = None,
    sandbox: Runner | None = None,
    own: Agent = Agent(),  # noqa: B008
    **limits: Any,
) -> tuple[Trajectory, Orchestrator]:
    """Run one attempt through the agent loop."""
    made = Orchestrator(
        file or agent_file(),
        PROBLEM,
        own,
        experts_of(models),
        search or Found(),
        sandbox or Runner(),
    )
    bounds = AttemptLimits(**limits)
    running = run_attempt(made.opening, orchestrator, Environment(made), bounds, made.agent)
    return asyncio.run(running), made
