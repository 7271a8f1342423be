"""Reads every row before anything is served: an invalid one stops the command.

In: a request. Out: the task id of each row, or BadRow with file, line and field.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True)
class CheckedFile:
    """A file whose rows can all be asked."""

    task_ids: tuple[str, ...]
    """Of each row, in the file's order."""
    content: str
    """Hash of the file and of its prompt."""


def check_file(request: GenerateRequest) -> CheckedFile:
    """Read the rows and see that a prompt can be made of each.

    Raises BadRow with file, line and field; BadPrompt, SourceMissing, UsageError.
    """
    settings = request.settings
    if not request.file.is_file():
        raise UsageError(f"{request.file} does not exist")
    field, prompt_name = settings.get("question_field"), settings.get("prompt")
    reading = OwnReading(UNSCORED.name, field, None, prompt_name)
    benchmark = open_benchmark(parse_benchmark(str(request.file)), reading)
    prompt = load_prompt(prompt_name or benchmark.prompt)
    ids = []
    for number, item in enumerate(benchmark.load(Source(request.file))):
        if request.limit is not None and number >= request.limit:
            break
        _check_row(request, prompt, number, item)
        ids.append(item.task_id)
    if not ids:
        raise UsageError(f"{request.file}: has no rows")
    if request.chunks > len(ids):
        raise UsageError(f"--chunks: {request.chunks} of {len(ids)} rows; give at most as many")
    digest = hashlib.sha256(prompt.prompt_id.encode() + request.file.read_bytes())
    return CheckedFile(tuple(ids), digest.hexdigest()[:16])


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
