"""Paced programs: agents that only generate load, for the comparison of schedulers.

After each answer a tool runs for the row's seconds, and its result is appended to the prompt. An
attempt is correct if it made all its calls. Texts are random words, seeded by row and call: equal
for attempts at one row, and without a shared prefix between rows.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from random import Random
from typing import Any

from tutti.storage import now
from tutti.tasks.agents.models import ChatModel
from tutti.tasks.agents.tools import ToolResult
from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.benchmarks.world import PlainWorld, World
from tutti.tasks.task_sets import Task

WORDS = tuple("".join(letters) for letters in product("bdfgklmnpt", "aeiou", "bdfgklmnprstvz"))
"""Seven hundred syllables, each one token for the random model of `make scheduling`."""


class PacedWorld(PlainWorld):
    """One attempt at a program (`tutti.tasks.benchmarks.World`)."""

    def __init__(self, name: str, added_words: int, pauses_s: Sequence[float]) -> None:
        """`pauses_s`: tool durations after each call but the last, in seconds."""
        self._name, self._added_words, self._pauses_s = name, added_words, pauses_s
        self._calls = 0

    async def reply(self, said: str) -> ToolResult | None:
        """Return the tool's result, after its duration; None after the last call."""
        self._calls += 1
        if self.over():
            return None
        began = now()
        await asyncio.sleep(self._pauses_s[self._calls - 1])
        found = text(f"{self._name}/{self._calls}", self._added_words)
        return ToolResult(found, "ok", began, now())

    def over(self) -> bool:
        return self._calls > len(self._pauses_s)

    def outcome(self) -> Mapping[str, Any]:
        return {"calls": self._calls}


def text(seed: str, words: int) -> str:
    """Return `words` random words."""
    return " ".join(Random(seed).choices(WORDS, k=words))


def read(files: Files) -> Iterator[Task]:
    """One task per row. Raises BadRow."""
    for row in files.rows():
        name = row.name("id")
        first, added = (_whole(row, each) for each in ("first_words", "added_words"))
        pauses = row.data.get("pauses_s")
        if not isinstance(pauses, list) or not all(
            isinstance(each, int | float) and each >= 0 for each in pauses
        ):
            row.bad("pauses_s", f"{pauses!r} is no list of seconds")
        target = {"state": {"calls": len(pauses) + 1}, "added_words": added, "pauses_s": pauses}
        yield Task(name, {"question": text(name, first)}, target)


def _whole(row: Row, name: str) -> int:
    value = row.data.get(name)
    if not isinstance(value, int) or value < 1:
        row.bad(name, f"{value!r} is no whole number above 0")
    return value


def world(task: Task, user: ChatModel | None) -> World:
    """The world of one attempt."""
    return PacedWorld(task.key, task.target["added_words"], task.target["pauses_s"])
