"""Turn a suite and its set-up into cells with content-hash ids, in the order they run."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from tutti.tasks.sandbox import WARNING, SandboxUnavailable, level_for_models, unsafe_sandbox
from tutti.tasks.sweeps.plan.config import CellConfig
from tutti.tasks.sweeps.plan.honoured import check_honoured
from tutti.tasks.sweeps.plan.identity import CellIds, grid_id_of, sample_id_of, sweep_id_of
from tutti.tasks.sweeps.plan.roles import check_agent, check_search
from tutti.tasks.sweeps.spec import Policy, Suite, due_times, with_reply_tokens
from tutti.tasks.task_sets import Task

A_A = -1  # the repeat of a cell that measures the first policy again, with the first repeat's seeds


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
        """Of its models' sampling and of its arrivals."""
        return max(self.repeat, 0)


@dataclass(frozen=True)
class Plan:
    """A sweep's cells, in the order they run."""

    sweep_id: str
    suite: Suite
    config: CellConfig
    cells: tuple[Cell, ...]
    whole: Suite | None = None
    """The suite that this is a part of, of several benchmarks or models, or a probe of."""


def plan_of(suite: Suite, config: CellConfig, whole: Suite | None = None) -> Plan:
    """The cells of `suite`. Policies alternate so that drift of the machine is no effect.

    Each cell has the same tasks, in the same order, with the same seeds; of a higher level more
    trials where `min_samples_per_session` says so. `whole` is the suite that this one is a part or
    a probe of. Raises SuiteError where the suite's agent or its search is not made for such tasks,
    a harness's package cannot honour its models or limits, or its trace is too short.
    """
    model = config.model
    suite = with_reply_tokens(suite, None if model is None else model.context_tokens)
    searches = bool(config.index_id or suite.roles.search_url)
    check_agent(suite, config.roles, config.task_set, searches)
    check_search(suite, config.task_set)
    check_honoured(suite, config, whole)
    order = list(config.task_set.tasks)
    Random(suite.tasks.seed).shuffle(order)
    grid_id = None if whole is None else grid_id_of(whole)
    ids, policies, cells = CellIds(suite, config, grid_id), suite.each_policy, []
    labels, first = _labels(suite, whole), suite.repetition.first_trial
    for label, concurrency, repeat, block in _run_order(suite):
        trials = _trials(suite, concurrency, len(order))
        cell_id = ids.of(policies[label], concurrency, repeat, trials)
        samples = tuple(
            Sample(sample_id_of(cell_id, each.task_id, trial), each, trial)
            for trial in range(first, first + trials)
            for each in order
        )
        cell = Cell(cell_id, labels[label], policies[label], concurrency, repeat, block, samples)
        due_times(suite.load, concurrency, len(samples), cell.seed)  # a trace too short is said now
        cells.append(cell)
    return Plan(grid_id or sweep_id_of(suite, config), suite, config, tuple(cells), whole)


def _labels(suite: Suite, whole: Suite | None) -> dict[str, str]:
    """What tables call each policy of `suite`: what `whole` calls it, if it is a probe of that."""
    known = {} if whole is None else whole.each_policy
    return {
        own: next((label for label, each in known.items() if each == policy), own)
        for own, policy in suite.each_policy.items()
    }


def _run_order(suite: Suite) -> Iterator[tuple[str, int, int, int]]:
    """(policy, concurrency, repeat, block) of each cell, block by block: one level once each."""
    for repeat in range(suite.repetition.repeats):
        for place, concurrency in enumerate(suite.concurrency):
            policies = list(suite.each_policy)
            if suite.execution.order == "random":
                Random(f"{suite.tasks.seed}/{repeat}/{concurrency}").shuffle(policies)
            elif (place + repeat) % 2:
                policies.reverse()
            if (
                suite.stopping.stop_when_decided is not None
            ):  # the others are compared with its cell
                policies.sort(key=lambda policy: policy != suite.first_policy)
            block = repeat * len(suite.concurrency) + place
            yield from ((policy, concurrency, repeat, block) for policy in policies)
            if suite.repetition.repeat_baseline and repeat == 0:
                yield suite.first_policy, concurrency, A_A, block


def _trials(suite: Suite, concurrency: int, tasks: int) -> int:
    """Samples of each task in a cell: so many that each session has its share."""
    needed = -(-suite.repetition.min_samples_per_session * concurrency // max(tasks, 1))
    return max(suite.samples_of_each, needed)


def runs_programs(plan: Plan) -> bool:
    """Whether its agents, its scorers or its domains' tools run what a model wrote."""
    benchmark = plan.config.task_set.benchmark
    if benchmark.scoring.needs == "sandbox" or plan.suite.command is not None:
        return benchmark.scoring.needs == "sandbox"
    python = plan.suite.harness.python is not None or "python" in benchmark.platform_tools
    return python or benchmark.has_toolkit or plan.config.roles.agent is not None


def sandbox_level(plan: Plan) -> str | None:
    """Raises SandboxUnavailable where it runs programs and no level may be used."""
    try:
        with unsafe_sandbox(plan.suite.harness.unsafe_sandbox):
            return level_for_models()
    except SandboxUnavailable:
        if runs_programs(plan):
            raise
        return None


def sandbox_alarm(plan: Plan) -> str:
    """What to say in red before such a sweep runs; "" where walls are there, or nothing runs.

    Raises SandboxUnavailable as `sandbox_level`.
    """
    unwalled = sandbox_level(plan) == "limits" and runs_programs(plan)
    return f"unsafe sandbox: {WARNING}" if unwalled else ""
