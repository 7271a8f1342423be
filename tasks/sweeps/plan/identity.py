"""The ids of sweeps, cells and samples: hashes of all that decides an answer, a score or a time.

In: a suite, its set-up, and the marks of the suite's fields (`tasks.sweeps.spec.marks`). A field
that is left at its default adds nothing, so what was measured before the field existed is found
again. A field stands in an id by its own name, whatever group of the suite it is in.
"""

from typing import Any

from pydantic import BaseModel

from tutti.storage import artifact_id
from tutti.tasks.agents import shipped_harness
from tutti.tasks.benchmarks import ANSWER_FIELDS, PUBLISHED, QUESTION_FIELDS
from tutti.tasks.identity import files_named, identity_of
from tutti.tasks.sweeps.plan.config import CellConfig
from tutti.tasks.sweeps.spec import (
    CELL,
    STDLIB,
    SWEEP,
    FieldScope,
    Policy,
    Suite,
    marks_of,
    open_named,
    own_command,
    parts,
    set_fields,
    value_of,
    without_groups,
    without_path,
)

LOOP_VERSION = "4"  # of what decides an attempt's outcome besides the suite: loop, prompt, tools
ALWAYS = {"temperature": "temperature", "max_tokens": "max_tokens", "max_turns": "turns"}
"""Fields that stand in every id, by their keys there; others only where they are set."""
FORMER_TOKENS = 96
"""The default of `max_tokens` until it followed the context: a grid that states it keeps its id."""
OF_BENCHMARK = ("split", "prompt")
"""Fields that come to the benchmark's own where they are omitted."""
OF_ROWS = {"question_field": QUESTION_FIELDS, "answer_field": ANSWER_FIELDS}
"""Fields that come to one of these where they are omitted. Which one a file's rows say, and with
them the task set, which is in the ids of cells."""
LINES = ("command", "mcp")
"""Fields that are shell lines: the files that they name decide as well."""


def sweep_content(suite: Suite, config: CellConfig) -> dict[str, Any]:
    """What all cells of a sweep share that decides an answer or its score."""
    content: dict[str, Any] = {key: value_of(suite, name) for name, key in ALWAYS.items()}
    content |= {"benchmark": suite.benchmark_name, "trials": suite.samples_of_each}
    content |= {
        name: identity_of(value) if isinstance(value, BaseModel) else value
        for name, value in set_fields(suite, SWEEP)
        if name not in ALWAYS and not _is_default(suite, name, value)
    }
    for name in LINES:
        if files := files_named(value_of(suite, name) or ""):
            content[f"{name}_files"] = files
    if config.model is not None and config.model.asked:
        content["asked"] = config.model.asked
    content |= config.roles.content
    if (harness := shipped_harness(suite.command)) is not None:
        content["harness"] = [suite.command, harness.version]
    tasks = [task.task_id for task in config.task_set.tasks]
    return content | {"loop": LOOP_VERSION, "model": config.served_name, "tasks": tasks}


def sweep_id_of(suite: Suite, config: CellConfig) -> str:
    """The id of a sweep of one benchmark and one model.

    The axes are not in it: a level or a repeat that is added later adds cells to the same sweep.
    """
    content = sweep_content(suite, config) | {"sweep": suite.name}
    return artifact_id("sweep", content, config.parents)


def grid_id_of(suite: Suite) -> str | None:
    """The id that the parts of a grid share; None for a suite of one benchmark and one model.

    It is of the name and the settings, not of the axes: a model that is added later, or an engine
    that is newer, belongs to the same sweep. Cells that are no longer in its plan are superseded.
    """
    if not suite.is_grid:
        return None
    marks = marks_of(Suite)
    given = without_groups(Suite, suite.model_dump(mode="json", exclude_defaults=True))
    settings = {
        name: value
        for name, value in given.items()
        if name != "name" and marks[name].belongs is FieldScope.SWEEP
        if not _is_default(suite, name, value)
    }
    if "benchmark" in settings:
        settings["benchmark"] = without_path(suite.benchmark)
    return artifact_id("sweep", {"grid": suite.name, "settings": settings})


def _is_default(suite: Suite, name: str, value: Any) -> bool:
    """Whether a stated value is what an omitted one comes to."""
    if name in OF_BENCHMARK:
        return _own_defaults(suite, name) == {value}
    if name in OF_ROWS:
        return value in OF_ROWS[name]
    is_stdlib = suite.benchmark == STDLIB and not suite.benchmarks
    omitted = {
        "python": "once" if is_stdlib else None,
        "command": None if suite.benchmarks else own_command(suite.benchmark),
        "max_tokens": FORMER_TOKENS,
        "rule": PUBLISHED,
        "solo": False,
    }
    return name in omitted and bool(value == omitted[name])


def _own_defaults(suite: Suite, name: str) -> set[str]:
    """What a field of `OF_BENCHMARK` comes to where it is omitted, of each benchmark of a grid that
    has a use for it. Raises BenchmarkError."""
    given = {part.benchmark: part.data for part in parts(suite)}
    omitted = {each: data.model_copy(update={name: None}) for each, data in given.items()}
    found = {
        getattr(open_named(each, data), name) for each, data in omitted.items() if each != STDLIB
    }
    return found | ({"test"} if name == "split" and STDLIB in given else set())


class CellIds:
    """Makes the ids of one sweep's cells."""

    def __init__(self, suite: Suite, config: CellConfig, grid_id: str | None) -> None:
        """`grid_id` is that of the grid that the suite is a part of."""
        self._suite, self._parents = suite, config.parents
        # A grid's cells are no other sweep's.
        self._content = sweep_content(suite, config) | {"sweep": grid_id or suite.name}
        self._settings = {
            name: value.content if name == "load" else value
            for name, value in set_fields(suite, CELL)
        }
        if config.engines(suite) > 1:
            self._settings["engines"] = config.engines(suite)

    def of(self, policy: Policy, concurrency: int, repeat: int, trials: int) -> str:
        """The id of one point of the grid."""
        point = policy.content | {"concurrency": concurrency, "repeat": repeat}
        if trials != self._suite.samples_of_each:
            point["trials"] = trials
        return artifact_id("cell", self._content | point | self._settings, self._parents)


def sample_id_of(cell_id: str, task_id: str, trial: int) -> str:
    """The id of one task at one trial of a cell."""
    return artifact_id("sample", [cell_id, task_id, trial])
