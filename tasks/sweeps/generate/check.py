"""Reads every row before anything is served: an invalid one stops the command.

In: a request. Out: the task id of each row, or BadRow with file, line and field.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from tutti.errors import UsageError
from tutti.tasks.benchmarks import (
    BadRow,
    OwnReading,
    Prompt,
    Source,
    Task,
    load_prompt,
    open_benchmark,
    parse_benchmark,
)
from tutti.tasks.scoring import UNSCORED
from tutti.tasks.sweeps.generate.request import GenerateRequest
from tutti.tasks.sweeps.generate.solutions import check_solutions


@dataclass(frozen=True)
class CheckedFile:
    """A file whose rows can all be asked."""

    task_ids: tuple[str, ...]
    """Of each row, in the file's order."""
    content: str
    """Hash of the file, of its prompt, and of the solutions that are combined."""


def check_file(request: GenerateRequest) -> CheckedFile:
    """Read the rows and see that a prompt can be made of each.

    Raises BadRow with file, line and field; BadPrompt, SourceMissing, UsageError.
    """
    if not request.file.is_file():
        raise UsageError(f"{request.file} does not exist")
    prompt, tasks = _read(request)
    ids = []
    for number, task in enumerate(tasks):
        _check_row(request, prompt, number, task)
        ids.append(task.task_id)
    if not ids:
        raise UsageError(f"{request.file}: has no rows")
    if request.chunks > len(ids):
        raise UsageError(f"--chunks: {request.chunks} of {len(ids)} rows; give at most as many")
    digest = hashlib.sha256(prompt.prompt_id.encode() + request.file.read_bytes())
    if request.solutions is not None:
        digest.update(check_solutions(request, request.solutions, len(ids)).encode())
    return CheckedFile(tuple(ids), digest.hexdigest()[:16])


def prompts_in(request: GenerateRequest) -> Iterator[tuple[Task, list[dict[str, Any]]]]:
    """Each row with the messages that it asks. Raises as `check_file`."""
    prompt, tasks = _read(request)
    return ((task, prompt.render(task)) for task in tasks)


def _read(request: GenerateRequest) -> tuple[Prompt, Iterator[Task]]:
    settings = request.settings
    field, prompt_name = settings.get("question_field"), settings.get("prompt")
    reading = OwnReading(UNSCORED.name, field, None, prompt_name)
    benchmark = open_benchmark(parse_benchmark(str(request.file)), reading)
    prompt = load_prompt(prompt_name or benchmark.prompt)
    return prompt, islice(benchmark.load(Source(request.file)), request.limit)


def _check_row(request: GenerateRequest, prompt: Prompt, number: int, task: Task) -> None:
    file, line = request.file, number + 1
    if request.key in task.inputs:
        reason = "the row has this field already; name another for the reply with --key"
        raise BadRow(file, line, request.key, reason)
    if not task.given:
        for name in prompt.fields:
            if name not in task.inputs:
                known = ", ".join(task.inputs) or "nothing"
                raise BadRow(file, line, name, f"is missing; the prompt has it, the row {known}")
    messages = prompt.render(task)
    _check_text(file, line, json.dumps(messages, ensure_ascii=False))


def _check_text(file: Path, line: int, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadRow(file, line, "", f"holds half a character: {error.reason}") from error
