"""What `tutti generate` is asked for, and the names of the files that it writes.

Files are named as NeMo-Skills names them: ``output-rs{S}.jsonl`` holds the replies of seed S,
``output.jsonl`` those of a run without seeds, ``…_chunk_{i}.jsonl`` those of one chunk.
"""

from dataclasses import dataclass, field
from pathlib import Path

from tutti.errors import UsageError
from tutti.tasks.agents import AUTO, Combine
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
