"""A request of `tutti generate`, the rows of its file, and the files that it writes.

A written file that somebody cut or edited is neither taken for a whole one nor merged. Files are
named as NeMo-Skills names them: ``output-rs{S}.jsonl`` holds the replies of seed S,
``output.jsonl`` those of a run without seeds, ``…_chunk_{i}.jsonl`` those of one chunk.
"""

import errno
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, product
from pathlib import Path
from typing import Any

from tutti.errors import UsageError
from tutti.tasks.agents import Combine
from tutti.tasks.agents.models import AUTO
from tutti.tasks.benchmarks import Source
from tutti.tasks.sweeps.from_flags import RunSettings

SEEDED_TEMPERATURE = 0.7
"""The default of samples with seeds: NeMo-Skills' own; a run without seeds is greedy."""
WINDOW = 8
"""The default of solutions in one prompt: NeMo-Skills' own."""
TOOLS = ("python", "mcp", "search_index")


@dataclass(frozen=True)
class GivenSolutions:
    """Solutions of the rows that are in files already, and how they are combined."""

    place: str
    """A folder with ``output-rs*.jsonl``, or a glob of such files."""
    combine: Combine = "select"
    window: int = WINDOW
    """Most solutions in one prompt; which ones is drawn."""


@dataclass(frozen=True)
class GenerateRequest:
    """The rows, the samples of each, and where their replies go."""

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
    """Only the first rows."""
    key: str = "generation"
    """The field of a reply."""
    times: bool = False
    """Whether lines also have what differs from run to run: times and ids."""
    settings: RunSettings = field(default_factory=RunSettings)
    solutions: GivenSolutions | None = None
    """What a reply is made of, if it combines solutions; None: the model answers the rows."""

    def __post_init__(self) -> None:
        """Raises UsageError."""
        if self.file.suffix != ".jsonl":
            raise UsageError(f"{self.file}: rows are read from a .jsonl file")
        if self.chunk is not None and not 0 <= self.chunk < self.chunks:
            raise UsageError(f"--chunk: {self.chunk} is none of 0 to {self.chunks - 1} (--chunks)")
        if self.samples is None and self.first_seed:
            raise UsageError("--first-seed: without --samples there are no seeds")
        if self.chunk is None and self.chunks == 1 and self.model is None:
            raise UsageError("--model: name an entry of the registry, or give an endpoint's URL")
        if self.chunk is not None and self.model is None:
            raise UsageError("--model: needed for --chunk")
        if self.solutions is not None:
            self._check_solutions(self.solutions)

    def _check_solutions(self, given: GivenSolutions) -> None:
        if tools := [name for name in TOOLS if self.settings.get(name) is not None]:
            flag = tools[0].replace("_", "-")
            raise UsageError(f"--{flag}: solutions are combined without tools; leave it out")
        if given.window < 2:
            raise UsageError(f"--window: {given.window} solutions are not compared; give 2 or more")

    @property
    def reasoning(self) -> str:
        """How reasoning in a reply's text is separated."""
        return self.settings.get("reasoning") or AUTO

    @property
    def seeds(self) -> tuple[int, ...]:
        """The numbers of the samples; of a run without seeds, 0 alone."""
        return tuple(range(self.first_seed, self.first_seed + (self.samples or 1)))

    def path_of(self, seed: int, chunk: int | None = None) -> Path:
        """The file of a seed: whole, or one chunk of it."""
        seeded = "" if self.samples is None else f"-rs{seed}"
        part = "" if chunk is None else f"_chunk_{chunk}"
        return self.out / f"output{seeded}{part}.jsonl"

    def mark_done(self) -> None:
        """Put NeMo-Skills' empty ``.done`` beside each file that is whole, chunks too.

        Its launcher tests for them, and does not generate again what has one.
        """
        chunks = [None, *(range(self.chunks) if self.chunks > 1 else ())]
        for path in (self.path_of(seed, chunk) for seed in self.seeds for chunk in chunks):
            if path.exists():
                done_file(path).touch()

    def rows_of(self, chunk: int, rows: int) -> range:
        """The rows of a chunk, of `rows` in all; chunks differ by one row at most."""
        return range(chunk * rows // self.chunks, (chunk + 1) * rows // self.chunks)


def done_file(path: Path) -> Path:
    """NeMo-Skills' mark that a file is whole."""
    return path.with_name(f"{path.name}.done")


def row_numbers(request: GenerateRequest, rows: int) -> range:
    """The rows that the request's file holds, of `rows`."""
    return range(rows) if request.chunk is None else request.rows_of(request.chunk, rows)


def rows_in(request: GenerateRequest, chosen: range) -> Iterator[Mapping[str, Any]]:
    """Some rows of the file, as they are there. Raises BadRow."""
    rows = Source(request.file).files(request.file.name, None, ("*.jsonl",)).rows()
    return (row.data for row in islice(rows, chosen.start, chosen.stop))


def write_whole(path: Path, lines: Iterable[str]) -> None:
    """Write a file so that it is whole or not there.

    Raises UsageError where there can be no such file, OSError for a full disk.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        unfinished.replace(path)
    except OSError as error:
        error.filename = str(path)  # a failed write has no name
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            unfinished.unlink(missing_ok=True)
            raise
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


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
