"""A request of `tutti generate`, the rows of its file, and the files that it writes.

Files have NeMo-Skills' names: ``output-rs{S}.jsonl`` holds the replies of seed S, ``output.jsonl``
those of a run without seeds, ``…_chunk_{i}.jsonl`` those of one chunk. A truncated or edited file
is neither accepted as complete nor merged.
"""

import errno
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, product
from pathlib import Path
from typing import Any

from tutti.errors import UsageError
from tutti.storage import replacing
from tutti.tasks.agents import Combine
from tutti.tasks.agents.models import AUTO
from tutti.tasks.benchmarks import Source
from tutti.tasks.sweeps.from_flags import RunSettings

SEEDED_TEMPERATURE = 0.7
"""The default of samples with seeds: NeMo-Skills' own; a run without seeds is greedy."""
WINDOW = 8
"""The default number of solutions in one prompt: NeMo-Skills' own."""
TOOLS = ("python", "mcp", "search_index")
AGAIN = "remove it, and the same command writes it again"
REPLY_FIELDS = frozenset(
    (
        *("num_generated_tokens", "num_input_tokens", "finish_reason", "reasoning_content"),
        *("num_tool_calls", "conversation", "error", "detailed_error", "attempt_id"),
        *("generation_start_time", "generation_end_time", "generation_time"),
        *("solution_list", "solution_numbers", "selected_solution"),
        *("total_solution_generated_tokens", "num_best_solution_generated_tokens"),
    )
)
"""Fields that a reply may write over those of its row, besides the reply's own key."""
COMBINED_PREFIXES = ("genselect_", "gensynthesis_")


@dataclass(frozen=True)
class GivenSolutions:
    """Existing files with solutions of the rows, and how to combine them."""

    place: str
    """A folder with ``output-rs*.jsonl``, or a glob of such files."""
    combine: Combine = "select"
    window: int = WINDOW
    """Most solutions in one prompt; the seed draws which ones."""


@dataclass(frozen=True)
class GenerateRequest:
    """The rows, the samples of each, and the folder for the replies."""

    file: Path
    model: str | None
    """An entry of the registry, or a URL. None: nothing is generated, chunks are merged."""
    out: Path
    samples: int | None = None
    """Seeds of each row; None is one reply without a seed, in ``output.jsonl``."""
    first_seed: int = 0
    chunks: int = 1
    chunk: int | None = None
    limit: int | None = None
    key: str = "generation"
    times: bool = False
    """Whether lines also have what differs from run to run: times and ids."""
    settings: RunSettings = field(default_factory=RunSettings)
    solutions: GivenSolutions | None = None
    """The solutions that a reply combines; None: the model answers the rows."""

    def __post_init__(self) -> None:
        """Raises UsageError."""
        if self.file.suffix != ".jsonl":
            raise UsageError(f"{self.file}: rows are read from a .jsonl file")
        if self.chunk is not None and not 0 <= self.chunk < self.chunks:
            raise UsageError(f"--chunk: {self.chunk} is none of 0 to {self.chunks - 1} (--chunks)")
        if self.samples is None and self.first_seed:
            raise UsageError("--first-seed: without --samples there are no seeds")
        if self.model is None and (self.chunk is not None or self.chunks == 1):
            raise UsageError("--model: name an entry of the registry, or give an endpoint's URL")
        if self.solutions is None:
            return
        if tools := [name for name in TOOLS if self.settings.get(name) is not None]:
            flag = tools[0].replace("_", "-")
            raise UsageError(f"--{flag}: solutions are combined without tools; leave it out")
        if (window := self.solutions.window) < 2:
            raise UsageError(f"--window: {window} solutions are not compared; give 2 or more")

    @property
    def reasoning(self) -> str:
        """How reasoning is separated from a reply's text."""
        return self.settings.get("reasoning") or AUTO

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(range(self.first_seed, self.first_seed + (self.samples or 1)))

    def path_of(self, seed: int, chunk: int | None = None) -> Path:
        """Return the file of a seed: the whole, or one chunk of it."""
        seeded = "" if self.samples is None else f"-rs{seed}"
        part = "" if chunk is None else f"_chunk_{chunk}"
        return self.out / f"output{seeded}{part}.jsonl"

    def is_done(self, seed: int) -> bool:
        """Whether a seed's file exists: the whole, or the request's chunk of it."""
        return any(self.path_of(seed, chunk).exists() for chunk in {None, self.chunk})

    def mark_done(self) -> None:
        """Write NeMo-Skills' empty ``.done`` beside each complete file, including chunks.

        Its launcher tests for them, and does not generate such files again.
        """
        chunks = [None, *(range(self.chunks) if self.chunks > 1 else ())]
        for path in (self.path_of(seed, chunk) for seed in self.seeds for chunk in chunks):
            if path.exists():
                done_file(path).touch()

    def row_numbers(self, rows: int, chunk: int | None = None) -> range:
        """Return the row numbers of a chunk, by default the request's, of `rows` in all; chunk
        sizes differ by at most one."""
        chunk = self.chunk if chunk is None else chunk
        if chunk is None:
            return range(rows)
        return range(chunk * rows // self.chunks, (chunk + 1) * rows // self.chunks)

    def rows(self, chosen: range) -> Iterator[Mapping[str, Any]]:
        """Yield the chosen rows of the file unchanged. Raises BadRow."""
        rows = Source(self.file).files(self.file.name, None, ("*.jsonl",)).rows()
        return (row.data for row in islice(rows, chosen.start, chosen.stop))


def done_file(path: Path) -> Path:
    """Return NeMo-Skills' mark of a complete file."""
    return path.with_name(f"{path.name}.done")


def write_whole(path: Path, lines: Iterable[str]) -> None:
    """Write a file completely or not at all.

    Raises UsageError if such a file is impossible, OSError for a full disk.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as unfinished, unfinished.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        error.filename = str(path)  # a failed write has no name
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


def check_written(request: GenerateRequest, rows: int) -> None:
    """Read the request's existing files. Raises UsageError as `lines_of`."""
    for seed, chunk in product(request.seeds, {None, request.chunk}):
        if request.path_of(seed, chunk).exists():
            for _ in lines_of(request, seed, chunk, rows):
                pass


def lines_of(request: GenerateRequest, seed: int, chunk: int | None, rows: int) -> Iterator[str]:
    """Yield the lines of a seed's file, or of a chunk of it, if the request has `rows` rows.

    Raises UsageError if they are not the replies to these rows; OSError.
    """
    path = request.path_of(seed, chunk)
    chosen = range(rows) if chunk is None else request.row_numbers(rows, chunk)
    # Not splitlines: a reply may hold other line ends, such as U+2028.
    lines = path.read_bytes().removesuffix(b"\n").split(b"\n")
    if len(lines) != len(chosen):
        raise UsageError(f"{path}: has {len(lines)} lines for {len(chosen)} rows; {AGAIN}")
    for number, (line, row) in enumerate(zip(lines, request.rows(chosen), strict=True), 1):
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

    `where` is the line's file and number, and `again` the remedy in the message. Raises UsageError.
    """
    try:
        fields = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON: {error}; {again}") from error
    key = request.key
    if not isinstance(fields, dict) or key not in fields:
        raise UsageError(f"{where}: {key}: absent; {again}")
    written = REPLY_FIELDS | {key, f"_full_{key}", f"_{key}_finished_thinking"}
    for name, value in row.items():
        may_differ = name in written or name.startswith(COMBINED_PREFIXES)
        if name not in fields or (fields[name] != value and not may_differ):
            place = f"row {number} of {request.file}"
            raise UsageError(f"{where}: {name}: is not that of {place}; {again}")
    return fields
