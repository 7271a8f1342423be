"""Selection of a benchmark (``gsm8k@revision:4``, ``my.jsonl:4``) and its tasks (``--limit``,
``--ids``, ``--where``).

In: the user's text, and tasks. Out: a `BenchmarkChoice`, and the chosen tasks in the order of the
source: the same selection gives the same tasks in the same order.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from tutti.tasks.benchmarks.benchmark import Benchmark
from tutti.tasks.benchmarks.definition import benchmark_named
from tutti.tasks.benchmarks.errors import BadSelection
from tutti.tasks.benchmarks.own.jsonl import OwnReading, jsonl_benchmark
from tutti.tasks.benchmarks.own.python import python_benchmark
from tutti.tasks.task_sets import Task

MAX_TRIALS = 10_000  # more is a typing error
NAMED_IDS = 5  # ids shown in an error
_ASKED = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?:@(?P<revision>[\w./-]+))?(?::(?P<trials>[0-9]+))?"
)

_OWN = re.compile(r"(?P<path>[^\0\n]*\.(?:jsonl|py))(?::(?P<trials>[0-9]+))?")
_STORED = re.compile(r"(?P<id>task_set:[A-Za-z0-9]+)(?::(?P<trials>[0-9]+))?")
# With a slash, so that it is no benchmark's name; a name ends before its revision, which has them.
_FOLDER = re.compile(r"(?P<path>[^\0\n@]*/[^\0\n@]*?)(?::(?P<trials>[0-9]+))?")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class BenchmarkChoice:
    """A benchmark with revision and trials, as the user selected it."""

    name: str
    revision: str | None = None
    """Revision on the hub; None for the pinned one."""
    trials: int = 1
    """Samples per task, each with its own seed."""
    path: Path | None = None
    """The file of a benchmark of the user's own, or the folder of a synthesized domain; its name is
    then made from the file's or the folder's."""
    task_set: str | None = None
    """The id of a stored task set of a synthesized domain."""


def parse_benchmark(text: str) -> BenchmarkChoice:
    """Read ``name[@revision][:trials]``, or ``path[:trials]`` of a .jsonl or .py file or of a
    domain's folder (with a slash: ``./shop``), or a task set, ``task_set:ID[:trials]``.

    Raises BadSelection.
    """
    if (stored := _STORED.fullmatch(text.strip())) is not None:
        trials, name = _trials(text, stored["trials"]), stored["id"].replace(":", "-")
        return BenchmarkChoice(name, None, trials, None, stored["id"])
    if (own := _OWN.fullmatch(text.strip())) is not None:
        path = Path(own["path"])
        return BenchmarkChoice(_name_of(path.stem), None, _trials(text, own["trials"]), path)
    match = _ASKED.fullmatch(text.strip())
    folder = _FOLDER.fullmatch(text.strip())
    if match is None and folder is not None:
        path = Path(folder["path"])
        return BenchmarkChoice(_name_of(path.name), None, _trials(text, folder["trials"]), path)
    if match is None:
        raise BadSelection(f"{text!r} is not name[@revision][:trials], as gsm8k, aime-25:16")
    return BenchmarkChoice(match["name"], match["revision"], _trials(text, match["trials"]))


def open_benchmark(choice: BenchmarkChoice, reading: OwnReading | None = None) -> Benchmark:
    """Open the chosen benchmark; `reading` is for one of the user's own files.

    Raises UnknownBenchmark, SourceMissing, BadBenchmarkFile, BenchmarkError.
    """
    reading = reading or OwnReading()
    if choice.path is None:
        return benchmark_named(choice.name)
    if choice.path.suffix == ".py":
        return python_benchmark(choice.name, choice.path, reading.source)
    return jsonl_benchmark(choice.name, choice.path, reading)


def _trials(text: str, given: str | None) -> int:
    trials = int(given or 1)
    if not 1 <= trials <= MAX_TRIALS:
        raise BadSelection(f"{text!r}: {trials} trials; give 1 to {MAX_TRIALS}")
    return trials


def _name_of(file: str) -> str:
    """A file's name without its ending, with ``-`` for characters that are invalid in names."""
    name = _UNSAFE.sub("-", file).strip("-._")
    if not name:
        raise BadSelection(f"{file!r}: the file's name has no letter from a to z and no digit")
    return name


def select(
    tasks: Iterable[Task],
    limit: int | None = None,
    ids: Sequence[str] | None = None,
    where: str | None = None,
) -> list[Task]:
    """The tasks whose id is among `ids` and whose attributes match `where`, the first `limit`.

    None selects all. `where` is one SQL expression over the tasks' attributes and ``id``, all text
    (``subject = 'physics' and level::int > 3``); an attribute that a task lacks is NULL. Raises
    BadSelection for unknown ids, an invalid expression, a limit below 1.
    """
    if limit is not None and limit < 1:
        raise BadSelection(f"the limit must be at least 1 task, not {limit}")
    chosen = list(tasks)
    if ids is not None:
        chosen = _with_ids(chosen, ids)
    if where is not None:
        chosen = _fitting(chosen, where)
    return chosen if limit is None else chosen[:limit]


def _with_ids(tasks: list[Task], ids: Sequence[str]) -> list[Task]:
    unknown = sorted(set(ids) - {task.key for task in tasks})
    if unknown:
        some = ", ".join(task.key for task in tasks[:NAMED_IDS]) or "none"
        raise BadSelection(f"no tasks {', '.join(unknown[:NAMED_IDS])}; the ids begin {some}")
    wanted = set(ids)
    return [task for task in tasks if task.key in wanted]


def _fitting(tasks: list[Task], where: str) -> list[Task]:
    """The tasks that match the expression. It is evaluated as an expression, never as a statement,
    in a separate database that cannot read files, load extensions or change settings."""
    names = sorted({name for task in tasks for name in task.attributes} - {"id"})
    columns: dict[str, pa.Array] = {
        "id": pa.array([task.key for task in tasks], pa.string()),
        **{n: pa.array([task.attributes.get(n) for task in tasks], pa.string()) for n in names},
    }
    # A column name that cannot occur in an expression by accident.
    table = pa.table({**columns, "\x01place": pa.array(range(len(tasks)), pa.int64())})
    settings = {"enable_external_access": "false", "lock_configuration": "true", "threads": "1"}
    with duckdb.connect(":memory:", config=dict(settings)) as connection:
        try:
            fitting = connection.from_arrow(table).filter(duckdb.SQLExpression(where))
            places = [place for (place,) in fitting.project('"\x01place"').fetchall()]
        except duckdb.Error as error:
            first = str(error).splitlines()[0].rstrip(".!")
            known = ", ".join(["id", *names])
            raise BadSelection(f"--where {where!r}: {first}. The attributes are {known}") from error
    return [tasks[place] for place in sorted(places)]
