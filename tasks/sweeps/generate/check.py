"""Checks of every row before anything is served: an invalid one stops the command.

In: a request. Out: the task id of each row, or BadRow with file, line and field. For a request with
`solutions` also those of each row, one per file: every line must contain its row unchanged, so a
file of other rows, or of rows in another order, is an error.
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
from tutti.tasks import benchmarks
from tutti.tasks.agents.models import separate
from tutti.tasks.benchmarks.own import OwnReading
from tutti.tasks.scoring import UNSCORED
from tutti.tasks.sweeps.generate.request import GenerateRequest, GivenSolutions, parse_line

SEEDS_FILE = re.compile(r"output-rs\d+\.jsonl")
SAME_ROWS = "--from-solutions takes files that were generated from these rows"


@dataclass(frozen=True)
class Solution:
    text: str
    """Empty if there is none, or if its reasoning never ended."""
    tokens: int
    """Generated ones; 0 where the line does not say."""


def solution_files(given: GivenSolutions, out: Path) -> list[Path]:
    """Return the files, ordered by the numbers in their names. Raises UsageError for fewer than
    two, and if the replies would be written beside them."""
    folder = Path(given.place)
    if folder.is_dir():
        files = [path for path in folder.iterdir() if SEEDS_FILE.fullmatch(path.name)]
    else:
        files = [path for name in glob.glob(given.place) if (path := Path(name)).is_file()]
    if len(files) < 2:
        has = f"{given.place} has {len(files)} files output-rs*.jsonl"
        raise UsageError(f"--from-solutions: {has}; two or more are combined")
    if any(path.resolve().parent == out.resolve() for path in files):
        raise UsageError(f"--out: {out} is the folder of the solutions; give another")
    return sorted(files, key=lambda path: re.sub(r"\d+", lambda part: part[0].zfill(20), str(path)))


def read_solutions(
    request: GenerateRequest, given: GivenSolutions, rows: int
) -> Iterator[list[Solution]]:
    """Yield the solutions of each of the request's `rows` rows, one per file. Raises UsageError
    with file, line and field."""
    with ExitStack() as stack:
        paths = solution_files(given, request.out)
        files = {path: stack.enter_context(path.open("rb")) for path in paths}
        for number, row in enumerate(request.rows(range(rows)), 1):
            lines = {path: file.readline() for path, file in files.items()}
            if short := [path for path, line in lines.items() if not line]:
                has = f"has {number - 1} lines for {rows} rows of {request.file}"
                raise UsageError(f"{short[0]}: {has}; {SAME_ROWS}")
            yield [
                _solution(f"{path}:{number}", line, row, number, request)
                for path, line in lines.items()
            ]
        for path, file in files.items():
            if request.limit is None and file.readline():
                raise UsageError(f"{path}: has more lines than the {rows} rows of {request.file}")


def _solution(
    where: str, line: bytes, row: Mapping[str, Any], number: int, request: GenerateRequest
) -> Solution:
    key = request.key
    fields = parse_line(where, line.removesuffix(b"\n"), row, number, request, SAME_ROWS)
    text, tokens = fields[key], fields.get("num_generated_tokens")
    if not isinstance(text, str):
        raise UsageError(f"{where}: {key}: {text!r:.40} is not text")
    if f"_full_{key}" not in fields and not fields.get("reasoning_content"):
        parts = separate(text, request.reasoning)
        text = text if parts is None else parts[1]
    return Solution(text, tokens if isinstance(tokens, int) and tokens > 0 else 0)


@dataclass(frozen=True)
class CheckedFile:
    """A file whose rows can all be rendered as prompts."""

    task_ids: tuple[str, ...]
    """The id of each row, in the file's order."""
    content: str
    """Hash of the file, of its prompt, and of the solutions that are combined."""


def check_file(request: GenerateRequest) -> CheckedFile:
    """Read the rows and check that a prompt can be rendered from each.

    Raises BadRow with file, line and field; BadPrompt, SourceMissing, UsageError.
    """
    if not request.file.is_file():
        raise UsageError(f"{request.file} does not exist")
    prompt, tasks = _read(request)
    ids = []
    for line, task in enumerate(tasks, 1):
        _check_row(request, prompt, line, task)
        ids.append(task.task_id)
    if not ids:
        raise UsageError(f"{request.file}: has no rows")
    if request.chunks > len(ids):
        raise UsageError(f"--chunks: {request.chunks} of {len(ids)} rows; give at most as many")
    digest = hashlib.sha256(prompt.prompt_id.encode() + request.file.read_bytes())
    if request.solutions is not None:
        solved = hashlib.sha256()
        for solutions in read_solutions(request, request.solutions, len(ids)):
            solved.update(json.dumps([[each.text, each.tokens] for each in solutions]).encode())
        digest.update(solved.hexdigest().encode())
    return CheckedFile(tuple(ids), digest.hexdigest()[:16])


def prompts_in(request: GenerateRequest) -> Iterator[tuple[benchmarks.Task, list[dict[str, Any]]]]:
    """Yield each row with its messages. Raises as `check_file`."""
    prompt, tasks = _read(request)
    return ((task, prompt.render(task)) for task in tasks)


def _read(request: GenerateRequest) -> tuple[benchmarks.Prompt, Iterator[benchmarks.Task]]:
    field, prompt_name = request.settings.get("question_field"), request.settings.get("prompt")
    reading = OwnReading(UNSCORED.name, field, None, prompt_name)
    benchmark = benchmarks.open_benchmark(benchmarks.parse_benchmark(str(request.file)), reading)
    prompt = benchmarks.load_prompt(prompt_name or benchmark.prompt)
    return prompt, islice(benchmark.load(benchmarks.Source(request.file)), request.limit)


def _check_row(
    request: GenerateRequest, prompt: benchmarks.Prompt, line: int, task: benchmarks.Task
) -> None:
    if request.key in task.inputs:
        reason = "the row has this field already; name another for the reply with --key"
        raise benchmarks.BadRow(request.file, line, request.key, reason)
    lacking = [] if task.given else [name for name in prompt.fields if name not in task.inputs]
    if lacking:
        known = ", ".join(task.inputs) or "nothing"
        reason = f"is missing; the prompt has it, the row {known}"
        raise benchmarks.BadRow(request.file, line, lacking[0], reason)
    try:
        json.dumps(prompt.render(task), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        reason = f"holds half a character: {error.reason}"
        raise benchmarks.BadRow(request.file, line, "", reason) from error
