"""Reads every row before anything is served: an invalid one stops the command.

In: a request. Out: the task id of each row, or BadRow with file, line and field. Of a request with
`solutions` those of each row, one a file, in the order of the files: every line must hold its row
unchanged, so a file of other rows, or of rows in another order, is an error.
"""

import glob
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from tutti.errors import UsageError
from tutti.tasks.agents.models import separate
from tutti.tasks.benchmarks import (
    BadRow,
    Prompt,
    Source,
    Task,
    load_prompt,
    open_benchmark,
    parse_benchmark,
)
from tutti.tasks.benchmarks.own import OwnReading
from tutti.tasks.scoring import UNSCORED
from tutti.tasks.sweeps.generate.request import GenerateRequest, GivenSolutions, parse_line, rows_in

SEEDS_FILE = re.compile(r"output-rs\d+\.jsonl")
SAME_ROWS = "--from-solutions takes files that were generated from these rows"


@dataclass(frozen=True)
class Solution:
    """One file's solution of a row."""

    text: str
    """Empty if there is none, or if its reasoning never ended."""
    tokens: int
    """Generated ones; 0 where the line does not say."""


@dataclass(frozen=True)
class _Row:
    number: int
    """From 1."""
    fields: Mapping[str, Any]
    of: int
    """How many rows there are."""


def solution_files(given: GivenSolutions, out: Path) -> list[Path]:
    """The files, by the numbers in their names. Raises UsageError for fewer than two, and where
    replies would be written beside them."""
    folder = Path(given.place)
    if folder.is_dir():
        found = [path for path in folder.iterdir() if SEEDS_FILE.fullmatch(path.name)]
        wanted = f"{given.place} has"
    else:
        found = [Path(path) for path in glob.glob(given.place) if Path(path).is_file()]
        wanted = f"{given.place} names"
    if len(found) < 2:
        what = "no output-rs*.jsonl" if not found else f"one file, {found[0].name}"
        raise UsageError(f"--from-solutions: {wanted} {what}; two or more are combined")
    if any(path.resolve().parent == out.resolve() for path in found):
        raise UsageError(f"--out: {out} is the folder of the solutions; give another")
    return sorted(found, key=_by_numbers)


def check_solutions(request: GenerateRequest, given: GivenSolutions, rows: int) -> str:
    """Read all solutions of the request's `rows` rows; returns their hash. Raises UsageError with
    file, line and field."""
    digest = hashlib.sha256()
    for solutions in read_solutions(request, given, rows):
        digest.update(json.dumps([[each.text, each.tokens] for each in solutions]).encode())
    return digest.hexdigest()


def read_solutions(
    request: GenerateRequest, given: GivenSolutions, rows: int
) -> Iterator[list[Solution]]:
    """The solutions of each row, one a file. Raises as `check_solutions`."""
    paths = solution_files(given, request.out)
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("rb")) for path in paths]
        for number, row in enumerate(rows_in(request, range(rows)), 1):
            yield [
                _solution(path, file.readline(), _Row(number, row, rows), request)
                for path, file in zip(paths, files, strict=True)
            ]
        for path, file in zip(paths, files, strict=True):
            if request.limit is None and file.readline():
                raise UsageError(f"{path}: has more lines than the {rows} rows of {request.file}")


def _solution(path: Path, line: bytes, row: _Row, request: GenerateRequest) -> Solution:
    """Raises UsageError for a line that is not of the row, and for a reply that is no text."""
    if not line:
        lines = f"has {row.number - 1} lines for {row.of} rows of {request.file}"
        raise UsageError(f"{path}: {lines}; {SAME_ROWS}")
    where = f"{path}:{row.number}"
    made = parse_line(where, line.removesuffix(b"\n"), row.fields, row.number, request, SAME_ROWS)
    text = made[request.key]
    if not isinstance(text, str):
        raise UsageError(f"{where}: {request.key}: {text!r:.40} is not text")
    tokens = made.get("num_generated_tokens")
    count = tokens if isinstance(tokens, int) and tokens > 0 else 0
    return Solution(_without_reasoning(text, made, request), count)


def _without_reasoning(text: str, made: Mapping[str, Any], request: GenerateRequest) -> str:
    """What the combining model is shown: the reply, unless the line has its reasoning apart."""
    if f"_full_{request.key}" in made or made.get("reasoning_content"):
        return text
    parts = separate(text, request.reasoning)
    return text if parts is None else parts[1]


def _by_numbers(path: Path) -> tuple[list[tuple[int, str]], str]:
    """Numbers as numbers: ``rs10`` follows ``rs9``."""
    parts = re.findall(r"\d+|\D+", str(path))
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts], str(path)


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
