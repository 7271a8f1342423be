"""Reads written files again: whether each line is still the reply to its row.

In: a request. Out: the lines. A file that somebody cut or edited is neither taken for a whole one
nor merged.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from tutti.errors import UsageError
from tutti.tasks.sweeps.generate.request import GenerateRequest
from tutti.tasks.sweeps.generate.rows import rows_in

AGAIN = "remove it, and the same command writes it again"
MODES = ("genselect_", "gensynthesis_")
COMBINED = frozenset(
    ("solution_list", "solution_numbers", "selected_solution", "total_solution_generated_tokens")
) | {"num_best_solution_generated_tokens"}
"""What the line of combined solutions has besides the fields that name their mode."""


def check_written(request: GenerateRequest, rows: int) -> None:
    """Read the request's files that are there. Raises UsageError as `lines_of`."""
    for seed, chunk in product(request.seeds, {None, request.chunk}):
        if request.path_of(seed, chunk).exists():
            for _ in lines_of(request, seed, chunk, rows):
                pass


def lines_of(request: GenerateRequest, seed: int, chunk: int | None, rows: int) -> Iterator[str]:
    """The lines of a seed's file, or of a chunk of it, where the request has `rows` rows.

    Raises UsageError where they are not the replies to these rows; OSError.
    """
    path = request.path_of(seed, chunk)
    chosen = range(rows) if chunk is None else request.rows_of(chunk, rows)
    # Not splitlines: a reply may hold other line ends, such as U+2028.
    lines = path.read_bytes().removesuffix(b"\n").split(b"\n")
    if len(lines) != len(chosen):
        raise UsageError(f"{path}: has {len(lines)} lines for {len(chosen)} rows; {AGAIN}")
    for number, (line, row) in enumerate(zip(lines, rows_in(request, chosen), strict=True), 1):
        parse_line(f"{path}:{number}", line, row, chosen.start + number, request)
        yield line.decode("utf-8")


def parse_line(
    where: str,
    line: bytes,
    row: Mapping[str, Any],
    number: int,
    request: GenerateRequest,
    again: str = AGAIN,
) -> dict[str, Any]:
    """The fields of one line, which must have a reply and all of `row`, the file's row `number`.

    `where` is the line's file and number, and `again` what to do about it. Raises UsageError.
    """
    try:
        made = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON: {error}; {again}") from error
    if not isinstance(made, dict) or request.key not in made:
        raise UsageError(f"{where}: {request.key}: absent; {again}")
    for name, value in row.items():
        if name not in made or (made[name] != value and name in _unchanged(made, request)):
            raise UsageError(
                f"{where}: {name}: is not that of row {number} of {request.file}; {again}"
            )
    return made


def _unchanged(made: dict[str, Any], request: GenerateRequest) -> set[str]:
    """Fields that a reply does not write: rows may have had figures of an earlier one."""
    own = {request.key, "num_generated_tokens", "num_input_tokens", "finish_reason"}
    own |= {f"_full_{request.key}", f"_{request.key}_finished_thinking"}
    own |= {"reasoning_content", "num_tool_calls", "conversation", "error", "detailed_error"}
    own |= {"generation_start_time", "generation_end_time", "generation_time", "attempt_id"}
    own |= {name for name in made if name in COMBINED or name.startswith(MODES)}
    return made.keys() - own
