"""Conversion of a suite and its set-up into cells with content-hash ids, in running order.

Ids are hashes of everything that determines an answer, a score or a time, by the marks of the
suite's fields (`tasks.sweeps.spec.marks`). A field at its default adds nothing, so measurements
from before the field existed stay valid. An id contains a field's own name, independent of its
group in the suite.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from pydantic import BaseModel

from tutti.storage import artifact_id
from tutti.tasks.agents.commands import shipped_harness
from tutti.tasks.benchmarks import PUBLISHED
from tutti.tasks.benchmarks.own import ANSWER_FIELDS, QUESTION_FIELDS
from tutti.tasks.platform import files_named, identity_of
from tutti.tasks.sandbox import WARNING, SandboxUnavailable, level_for_models, unsafe_sandbox
from tutti.tasks.sweeps.plan.checks import (
    agent_faults,
    package_faults,
    refuse,
    search_faults,
)
from tutti.tasks.sweeps.plan.config import CellConfig
from tutti.tasks.sweeps.results import A_A as A_A
from tutti.tasks.sweeps.spec import (
    CELL,
    FORMER_TOKENS,
    PUBLIC_ONLY,
    SWEEP,
    FieldScope,
    Policy,
    Suite,
    is_made,
    marks_of,
    open_named,
    own_command,
    set_fields,
    without_path,
)
from tutti.tasks.task_sets import Task

LOOP_VERSION = "4"  # of what decides an attempt's outcome besides the suite: loop, prompt, tools
ALWAYS = {"temperature": "temperature", "max_tokens": "max_tokens", "max_turns": "turns"}
"""Fields that stand in every id, by their keys there; others only where they are set."""
OF_BENCHMARK = ("split", "prompt")
"""Fields that come to the benchmark's own where they are omitted."""
OF_ROWS = {"question_field": QUESTION_FIELDS, "answer_field": ANSWER_FIELDS}
"""Fields that come to one of these where they are omitted. Which one a file's rows say, and with
them the task set, which is in the ids of cells."""
LINES = ("command", "mcp")
"""Fields that are shell lines: the files that they name decide as well."""


def sweep_content(suite: Suite, config: CellConfig) -> dict[str, Any]:
    """Return what all cells of a sweep share that determines an answer or its score."""
    content: dict[str, Any] = {key: suite.value_of(name) for name, key in ALWAYS.items()}
    content |= {"benchmark": suite.benchmark_name, "trials": suite.samples_of_each}
    content |= {
        name: identity_of(value) if isinstance(value, BaseModel) else value
        for name, value in set_fields(suite, SWEEP)
        if name not in ALWAYS and not _is_default(suite, name, value)
    }
    for name in LINES:
        if files := files_named(suite.value_of(name) or ""):
            content[f"{name}_files"] = files
    if config.model is not None and config.model.asked:
        content["asked"] = config.model.asked
    content |= config.roles.content
    if (harness := shipped_harness(suite.command)) is not None:
        content["harness"] = [suite.command, harness.version]
    tasks = [task.task_id for task in config.task_set.tasks]
    return content | {"loop": LOOP_VERSION, "model": config.served_name, "tasks": tasks}


def grid_id_of(suite: Suite) -> str | None:
    """The id that the parts of a grid share; None for a suite of one benchmark and one model.

    It depends on the name and the settings, not on the axes: a model that is added later, or a
    newer engine, belongs to the same sweep. Cells that are no longer in its plan are superseded.
    """
    if not suite.is_grid:
        return None
    marks = marks_of(Suite)
    settings = {
        name: value
        for name, value in suite.given_fields().items()
        if name != "name" and marks[name].belongs is FieldScope.SWEEP
        if not _is_default(suite, name, value)
    }
    if "benchmark" in settings:
        settings["benchmark"] = without_path(suite.benchmark)
    return artifact_id("sweep", {"grid": suite.name, "settings": settings})


def _is_default(suite: Suite, name: str, value: Any) -> bool:
    if name in OF_BENCHMARK:
        return _own_defaults(suite, name) == {value}
    if name in OF_ROWS:
        return value in OF_ROWS[name]
    omitted = {
        "python": None if suite.benchmarks or suite.request is None else "once",
        "command": None if suite.benchmarks else own_command(suite.benchmark),
        "max_tokens": FORMER_TOKENS,
        "rule": PUBLISHED,
        "solo": False,
    }
    return name in omitted and bool(value == omitted[name])


def _own_defaults(suite: Suite, name: str) -> set[str]:
    """Return the defaults of a field of `OF_BENCHMARK`, for each benchmark of a grid that uses it.
    Raises BenchmarkError."""
    given = {part.benchmark: part.data for part in suite.parts()}
    omitted = {each: data.model_copy(update={name: None}) for each, data in given.items()}
    return {
        getattr(open_named(each, data), name)
        for each, data in omitted.items()
        if name not in PUBLIC_ONLY or not is_made(each)
    }


class CellIds:
    """The ids of one sweep's cells."""

    def __init__(self, suite: Suite, config: CellConfig, grid_id: str | None) -> None:
        """`grid_id` is that of the grid of which the suite is a part."""
        self._suite, self._parents = suite, config.parents
        # A grid's cells belong to no other sweep.
        self._content = sweep_content(suite, config) | {"sweep": grid_id or suite.name}
        self._settings = {
            name: value.content if name == "load" else value
            for name, value in set_fields(suite, CELL)
        }
        if config.engines(suite) > 1:
            self._settings["engines"] = config.engines(suite)

    @property
    def sweep_id(self) -> str:
        """The id of the sweep of one benchmark and one model. The axes are not in it: a level or a
        repeat that is added later adds cells to the same sweep."""
        return artifact_id("sweep", self._content, self._parents)

    def of(self, policy: Policy, concurrency: int, repeat: int, trials: int) -> str:
        """Return the id of one point of the grid."""
        point = policy.content | {"concurrency": concurrency, "repeat": repeat}
        if trials != self._suite.samples_of_each:
            point["trials"] = trials
        return artifact_id("cell", self._content | point | self._settings, self._parents)


@dataclass(frozen=True)
class Sample:
    """One task at one trial within a cell."""

    sample_id: str
    task: Task
    trial: int


@dataclass(frozen=True)
class Cell:
    """One point of a sweep's grid."""

    cell_id: str
    policy: str
    """What tables call it."""
    scheduling: Policy
    """The policy with its options."""
    concurrency: int
    repeat: int
    block: int
    """Cells of one block, one level measured once, are run one after another."""
    samples: tuple[Sample, ...]

    @property
    def seed(self) -> int:
        """The seed of its models' sampling and of its arrivals."""
        return max(self.repeat, 0)


@dataclass(frozen=True)
class Plan:
    """A sweep's cells, in running order."""

    sweep_id: str
    suite: Suite
    config: CellConfig
    cells: tuple[Cell, ...]
    whole: Suite | None = None
    """The suite that this is a part of, of several benchmarks or models, or a probe of."""


def plan_of(suite: Suite, config: CellConfig, whole: Suite | None = None) -> Plan:
    """The plan of `suite`. Policies alternate, so that machine drift does not affect one only.

    Each cell has the same tasks, in the same order, with the same seeds; higher levels have more
    trials if `min_samples_per_session` requires it. `whole` is the suite of which this one is a
    part or a probe. Raises SuiteError if the suite's agent or its search does not fit such tasks, a
    harness's package cannot honour its models or limits, or its trace is too short.
    """
    model = config.model
    suite = suite.with_reply_tokens(None if model is None else model.context_tokens)
    searches = bool(config.index_id or suite.roles.search_url)
    benchmark, tasks = config.task_set.benchmark, config.task_set.tasks
    refuse(agent_faults(suite, config.roles, benchmark, tasks, searches))
    refuse(search_faults(suite, benchmark, tasks))
    refuse(package_faults(suite, (config.model_name, model), config.roles, whole))
    order = list(tasks)
    Random(suite.tasks.seed).shuffle(order)
    grid_id = None if whole is None else grid_id_of(whole)
    ids, policies, cells = CellIds(suite, config, grid_id), suite.each_policy, []
    labels, first = _labels(suite, whole), suite.repetition.first_trial
    for label, concurrency, repeat, block in _run_order(suite):
        # Enough that each session has its share.
        needed = -(-suite.repetition.min_samples_per_session * concurrency // max(len(order), 1))
        trials = max(suite.samples_of_each, needed)
        cell_id = ids.of(policies[label], concurrency, repeat, trials)
        samples = tuple(
            Sample(artifact_id("sample", [cell_id, each.task_id, trial]), each, trial)
            for trial in range(first, first + trials)
            for each in order
        )
        cell = Cell(cell_id, labels[label], policies[label], concurrency, repeat, block, samples)
        suite.load.due_times(concurrency, len(samples), cell.seed)  # a trace too short is said now
        cells.append(cell)
    return Plan(grid_id or ids.sweep_id, suite, config, tuple(cells), whole)


def _labels(suite: Suite, whole: Suite | None) -> dict[str, str]:
    # A probe's policies are called as in the suite that it is a probe of.
    known = {} if whole is None else whole.each_policy
    return {
        own: next((label for label, each in known.items() if each == policy), own)
        for own, policy in suite.each_policy.items()
    }


def _run_order(suite: Suite) -> Iterator[tuple[str, int, int, int]]:
    """Yield (policy, concurrency, repeat, block) of each cell."""
    for repeat in range(suite.repetition.repeats):
        for place, concurrency in enumerate(suite.concurrency):
            policies = list(suite.each_policy)
            if suite.execution.order == "random":
                Random(f"{suite.tasks.seed}/{repeat}/{concurrency}").shuffle(policies)
            elif (place + repeat) % 2:
                policies.reverse()
            if suite.stopping.stop_when_decided is not None:
                # The others are compared with the first one's cell.
                policies.sort(key=lambda policy: policy != suite.first_policy)
            block = repeat * len(suite.concurrency) + place
            yield from ((policy, concurrency, repeat, block) for policy in policies)
            if suite.repetition.repeat_baseline and repeat == 0:
                yield suite.first_policy, concurrency, A_A, block


def runs_programs(plan: Plan) -> bool:
    """Whether its agents, its scorers or its domains' tools run code that a model wrote."""
    benchmark = plan.config.task_set.benchmark
    if benchmark.scoring.needs == "sandbox" or plan.suite.command is not None:
        return benchmark.scoring.needs == "sandbox"
    python = plan.suite.harness.python is not None or "python" in benchmark.platform_tools
    return python or benchmark.has_toolkit or plan.config.roles.agent is not None


def sandbox_level(plan: Plan) -> str | None:
    """The sandbox level. Raises SandboxUnavailable if it runs programs and no level may be used."""
    try:
        with unsafe_sandbox(plan.suite.harness.unsafe_sandbox):
            return level_for_models()
    except SandboxUnavailable:
        if runs_programs(plan):
            raise
        return None


def sandbox_alarm(plan: Plan) -> str:
    """A warning, shown in red, for a sweep that runs programs without isolation; "" otherwise.

    Raises SandboxUnavailable as `sandbox_level`.
    """
    unwalled = sandbox_level(plan) == "limits" and runs_programs(plan)
    return f"unsafe sandbox: {WARNING}" if unwalled else ""
