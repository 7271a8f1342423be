"""The cells of a policy training: one or more rounds for each step, one cell for each evaluation.

They are planned before anything runs, like those of a sweep. The tasks of each step follow from the
job's seed, so a resumed job rolls out the same groups in the same order.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from tutti.storage import Home, artifact_id, query
from tutti.tasks.leaks import own_texts, said_in, without_frame
from tutti.tasks.sweeps.plan import Cell, CellConfig, Plan, Sample, TaskSet, sweep_content
from tutti.tasks.sweeps.spec import Suite
from tutti.tasks.task_sets import Task
from tutti.tasks.training.jobs.job import JobError
from tutti.tasks.training.policy.job import PolicyJob
from tutti.tasks.training.sets.guards import TASKS, HeldOut


class TrainedTasks(NamedTuple):
    """The tasks that a job rolls out, and the reasons why others are left out."""

    kept: tuple[Task, ...]
    left_out: dict[str, str]


def keep_apart(train: TaskSet, test: TaskSet, job: PolicyJob, home: Home | None) -> TrainedTasks:
    """Leave out tasks that copy a task of `test`, of another split in the store, or of the user's
    own files. Without a store, only `test` is compared.

    Raises JobError if a side has no task, or a task is on both.
    """
    for split, side in (("train", train), (job.evaluation.split, test)):
        if not side.tasks:
            raise JobError(f"suite: no task in split {split!r}")
    shared = sorted(_contents(train) & _contents(test))
    if shared:
        raise JobError(f"evaluation: {len(shared)} tasks are trained on, as {shared[0]!r}")
    names = {each.task_id for each in train.tasks}
    held = without_frame([*_prompts(test).values()])
    rows = []
    if home is not None:
        rows = [row for row in query(TASKS, home) if row["task_id"] not in names]
        held += own_texts(home)
    guard = HeldOut(rows, frozenset({"train", job.suite.data.split or "train"}), held)
    left_out = guard.of_texts({name: [text] for name, text in _prompts(train).items()})
    kept = tuple(each for each in train.tasks if each.task_id not in left_out)
    if not kept:
        raise JobError(f"suite: all {len(train.tasks)} tasks copy held-out ones")
    return TrainedTasks(kept, left_out)


def _contents(tasks: TaskSet) -> set[str]:
    """Return the texts that distinguish tasks: two files may have the same task under two ids. In
    worlds the prompts may be alike, and the ids differ."""
    if tasks.benchmark.world is not None:
        return {each.task_id for each in tasks.tasks}
    return {" ".join(str(one.get("content")) for one in each.messages) for each in tasks.tasks}


def _prompts(tasks: TaskSet) -> dict[str, str]:
    """Return the prompt of each task, except in worlds, whose prompts are alike."""
    if tasks.benchmark.world is not None:
        return {}
    return {
        each.task_id: "\n".join(said_in(one for one in each.messages if one["role"] != "system"))
        for each in tasks.tasks
    }


@dataclass(frozen=True)
class PolicyCells:
    """The plans of a job."""

    rollouts: Plan
    """Rounds of step n are its cells from `rounds` * n on."""
    rounds: int
    evaluations: Plan
    """Cell n is of the weights after step `at[n]`."""
    at: tuple[int, ...]
    left_out: dict[str, int]
    """Tasks that are not trained on, by reason."""

    def of_step(self, number: int) -> Sequence[Cell]:
        """Return the cells that a step may need, in order."""
        return self.rollouts.cells[number * self.rounds : (number + 1) * self.rounds]


def plan_policy(
    job: PolicyJob, rollouts: CellConfig, evaluations: CellConfig, home: Home | None = None
) -> PolicyCells:
    """Plan the cells of a job on its tasks, without tasks that copy a held-out one. Raises JobError
    for an empty split, or a shared task."""
    tasks = keep_apart(rollouts.task_set, evaluations.task_set, job, home)
    sides = ((rollout_suite(job), rollouts), (held_out_suite(job), evaluations))
    content: list[Any] = [job.content, *(sweep_content(suite, config) for suite, config in sides)]
    content += [sorted(tasks.left_out)] if tasks.left_out else []
    own = artifact_id("policy", content, rollouts.parents)
    at = evaluated_after(job)
    measured, dynamic = evaluations.task_set.tasks[: job.evaluation.limit], job.rollouts.dynamic
    return PolicyCells(
        _plan(own, "rollouts", rollout_suite(job), rollouts, _rounds(job, tasks.kept)),
        1 if dynamic is None else dynamic.most_rounds,
        _plan(own, "held-out", held_out_suite(job), evaluations, [measured] * len(at)),
        at,
        dict(Counter(tasks.left_out.values())),
    )


def held_out_suite(job: PolicyJob) -> Suite:
    """The suite of the evaluations: the held-out split, greedy unless there are several trials."""
    asked = job.evaluation
    split = {} if asked.suite is not None else {"split": asked.split}
    suite = asked.suite or job.suite
    temperature = 0.0 if asked.trials == 1 else suite.sampling.temperature
    return suite.model_copy(
        update={
            "name": f"{job.name} held-out",
            "data": suite.data.model_copy(update=split),
            "sampling": suite.sampling.model_copy(update={"temperature": temperature}),
            "repetition": suite.repetition.model_copy(update={"trials": asked.trials}),
        }
    )


def rollout_suite(job: PolicyJob) -> Suite:
    """The suite of the rollouts."""
    repetition = job.suite.repetition.model_copy(update={"trials": job.rollouts.group_size})
    return job.suite.model_copy(update={"name": f"{job.name} rollouts", "repetition": repetition})


def evaluated_after(job: PolicyJob) -> tuple[int, ...]:
    """Return the steps after which the held-out tasks are measured."""
    every = job.evaluation.every or job.steps
    return (0, *range(every, job.steps, every), job.steps)


def _rounds(job: PolicyJob, train: Sequence[Task]) -> list[list[Task]]:
    """The tasks of each round: every task once before any is repeated, each pass in a new order."""
    dynamic = job.rollouts.dynamic
    wanted = job.rollouts.groups if dynamic is None else dynamic.round_groups
    rounds = job.steps * (1 if dynamic is None else dynamic.most_rounds)
    size = min(wanted, len(train))  # a task is once in a round
    drawn: list[Task] = []
    for epoch in range(-(-rounds * size // len(train))):
        order = list(train)
        Random(f"{job.seed} {epoch}").shuffle(order)
        drawn += order
    some = (drawn[n * size : (n + 1) * size] for n in range(rounds))
    return [list({each.task_id: each for each in tasks}.values()) for tasks in some]


def _plan(
    own: str, kind: str, suite: Suite, config: CellConfig, steps: Sequence[Sequence[Task]]
) -> Plan:
    model = config.model
    suite = suite.with_reply_tokens(None if model is None else model.context_tokens)
    ((name, policy),) = suite.each_policy.items()
    cells = []
    for number, tasks in enumerate(steps):
        cell_id = artifact_id("cell", [own, kind, number], config.parents)
        samples = tuple(
            Sample(artifact_id("sample", [cell_id, each.task_id, trial]), each, trial)
            for each in tasks
            for trial in range(suite.repetition.trials)
        )
        cells.append(Cell(cell_id, name, policy, suite.concurrency[0], number, number, samples))
    sweep_id = artifact_id("sweep", [own, kind], config.parents)
    return Plan(sweep_id, suite, config, tuple(cells))
