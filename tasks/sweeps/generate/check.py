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
    Item,
    OwnReading,
    Prompt,
    Source,
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
    prompt, items = _read(request)
    ids = []
    for number, item in enumerate(items):
        _check_row(request, prompt, number, item)
        ids.append(item.task_id)
    if not ids:
        raise UsageError(f"{request.file}: has no rows")
    if request.chunks > len(ids):
        raise UsageError(f"--chunks: {request.chunks} of {len(ids)} rows; give at most as many")
    digest = hashlib.sha256(prompt.prompt_id.encode() + request.file.read_bytes())
    if request.solutions is not None:
        digest.update(check_solutions(request, request.solutions, len(ids)).encode())
    return CheckedFile(tuple(ids), digest.hexdigest()[:16])


def prompts_in(request: GenerateRequest) -> Iterator[tuple[Item, list[dict[str, Any]]]]:
    """Each row with the messages that it asks. Raises as `check_file`."""
    prompt, items = _read(request)
    return ((item, prompt.render(item)) for item in items)


def _read(request: GenerateRequest) -> tuple[Prompt, Iterator[Item]]:
    settings = request.settings
    field, prompt_name = settings.get("question_field"), settings.get("prompt")
    reading = OwnReading(UNSCORED.name, field, None, prompt_name)
    benchmark = open_benchmark(parse_benchmark(str(request.file)), reading)
    prompt = load_prompt(prompt_name or benchmark.prompt)
    return prompt, islice(benchmark.load(Source(request.file)), request.limit)


def _check_row(request: GenerateRequest, prompt: Prompt, number: int, item: Item) -> None:
    file, line = request.file, number + 1
    if request.key in item.fields:
        reason = "the row has this field already; name another for the reply with --key"
        raise BadRow(file, line, request.key, reason)
    if not item.messages:
        for name in prompt.fields:
            if name not in item.fields:
                known = ", ".join(item.fields) or "nothing"
                raise BadRow(file, line, name, f"is missing; the prompt has it, the row {known}")
    messages = prompt.render(item)
    _check_text(file, line, json.dumps(messages, ensure_ascii=False))


def _check_text(file: Path, line: int, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadRow(file, line, "", f"holds half a character: {error.reason}") from error
