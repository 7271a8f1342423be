"""The world of an API-Bank dialogue: a scripted user, and tools that return recorded results.

The data do not include the APIs' code, so a call without a recorded result is refused. For unknown
keywords the tool searcher searches the library with BM25, and returns the best API, preceded by
GetUserToken if the API needs a token.
"""

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tutti.tasks.agents.models import ChatModel
from tutti.tasks.agents.tools import ToolResult
from tutti.tasks.benchmarks.api_bank.tools import SEARCHER, spaced
from tutti.tasks.benchmarks.world import CallRefused, PlainWorld, carry_out
from tutti.tasks.retrieval import WordIndex
from tutti.tasks.scoring import same
from tutti.tasks.task_sets import Task

TOKEN = "GetUserToken"
NOT_RECORDED = "not_recorded"


class RecordedWorld(PlainWorld):
    """One dialogue: the user's lines in turn, and recorded results for calls."""

    def __init__(self, task: Task, user: ChatModel | None = None) -> None:
        """`task` is a task of `api_bank.session`; no model takes part."""
        self._steps: Sequence[Mapping[str, Any]] = task.target["script"]
        self._at = 0
        """Index of the current step of the dialogue."""
        self._library = {each["function"]["name"]: each for each in task.target["library"]}
        self.schemas = task.tools

    async def use(self, name: str, arguments: str) -> ToolResult:
        return await carry_out(self._answer, self.schemas, name, arguments)

    async def reply(self, said: str) -> str | None:
        for place in range(self._at, len(self._steps)):
            if "says" in self._steps[place]:
                self._at = place + 1
                return str(self._steps[place]["says"])
        return None

    async def _answer(self, name: str, arguments: dict[str, Any]) -> str:
        # Search those still to come first: the same call may occur twice.
        for place in [*range(self._at, len(self._steps)), *range(self._at)]:
            step = self._steps[place]
            if step.get("name") == name and same(step["arguments"], arguments):
                self._at = max(self._at, place + 1)
                return self._found(step["result"]) if name == SEARCHER else text_of(step["result"])
        if name == SEARCHER:
            return self._found(self._search(str(arguments.get("keywords", ""))))
        raise CallRefused("nothing is recorded for this call with these arguments", NOT_RECORDED)

    def _found(self, result: Any) -> str:
        """Return the searcher's result; its tools are available from now on."""
        names = [each["name"] for each in (result if isinstance(result, list) else [result])]
        tools = {each["function"]["name"]: each for each in self.schemas}
        self.schemas = list((tools | {name: self._library[name] for name in names}).values())
        return text_of(result)

    def _search(self, keywords: str) -> list[Mapping[str, Any]]:
        texts = tuple(_searched(each["function"]) for each in self._library.values())
        best = _index(texts).best(spaced(keywords), 1)
        if not best:
            raise CallRefused("no API fits these keywords")
        found: list[Mapping[str, Any]] = [list(self._library.values())[best[0][0]]["function"]]
        if TOKEN in self._library and "token" in _parameters(found[0]):
            found.insert(0, self._library[TOKEN]["function"])
        return found


def session_target(
    script: Sequence[Mapping[str, Any]], library: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """The target of a session: its gold calls without the searches, and the script of its world."""
    calls = [
        {"name": step["name"], "arguments": step["arguments"]}
        for step in script
        if "name" in step and step["name"] != SEARCHER
    ]
    target = {"calls": calls, "ordered": True, "extra": "allowed"}
    return target | {"script": list(script), "library": list(library)}


def text_of(result: Any) -> str:
    """A result as shown to the agent."""
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


@functools.lru_cache(maxsize=8)
def _index(texts: tuple[str, ...]) -> WordIndex:
    return WordIndex.of(texts)


def _parameters(function: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = function["parameters"]["properties"]
    return found


def _searched(function: Mapping[str, Any]) -> str:
    return f"{spaced(function['name'])} {function['description']}"
