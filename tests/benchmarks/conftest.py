"""Shared fixtures of the benchmark tests: public data if present, and generated files."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tutti.tasks.agents.models.model import Message, Reply
from tutti.tasks.benchmarks import ExcludedRow, Source, Task, benchmark_named
from tutti.tasks.benchmarks.benchmark import tool_call
from tutti.tasks.platform.project import PROJECT

Load = Callable[..., list[Task]]


@pytest.fixture(scope="session")
def data() -> Path:
    """Return the folder of public data (TUTTI_TEST_DATA)."""
    folder = Path(os.environ.get("TUTTI_TEST_DATA", PROJECT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no public data at {folder}")
    return folder


def write_lines(path: Path, rows: Sequence[Any]) -> Path:
    """Write `rows` as JSON lines and create the parent folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def load(
    name: str, path: Path, left_out: list[ExcludedRow] | None = None, **asked: Any
) -> list[Task]:
    """Return every task of benchmark `name` under `path`."""
    return list(benchmark_named(name).load(Source(path, **asked), left_out))


class Scripted:
    """Model with scripted messages, in order; a dict is a tool call."""

    def __init__(self, *words: str | dict[str, Any]) -> None:
        self.words = list(words)
        self.prompts: list[list[Message]] = []
        """What it was shown, call by call."""

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        step: int,
        positions: Sequence[int] | None = None,
    ) -> Reply:
        """Return the next scripted message."""
        self.prompts.append([dict(message) for message in messages])
        said = self.words.pop(0)
        message: Message = {"role": "assistant", "content": said}
        if isinstance(said, dict):
            call = tool_call(f"call-{step}", said["name"], said["arguments"])
            message = {"role": "assistant", "content": "", "tool_calls": [call]}
        return Reply(message, f"id-{step}")
