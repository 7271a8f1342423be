"""The tasks of a policy job that may be trained on: none that copies a held-out text.

In: both sides' tasks and the store. Out: the tasks that are kept, and why others are not. The
same task on both sides is a mistake in the job, and is refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tutti.storage import Home, query
from tutti.tasks.leaks import own_texts, said_in, without_frame
from tutti.tasks.sweeps.plan import TaskSet
from tutti.tasks.task_sets import Task
from tutti.tasks.training.job import JobError
from tutti.tasks.training.policy.job import PolicyJob
from tutti.tasks.training.sets.guards import TASKS, HeldOut


@dataclass(frozen=True)
class TrainedTasks:
    """The tasks that a job rolls out."""

    kept: tuple[Task, ...]
    left_out: dict[str, str]
    """Task to reason."""


def keep_apart(train: TaskSet, test: TaskSet, job: PolicyJob, home: Home | None) -> TrainedTasks:
    """Leave out tasks that copy one of `test`, of another split in the store, or of the user's own
    files. Without a store, only `test` is compared.

    Raises JobError where a side has no task, or a task is on both.
    """
    for split, side in (("train", train), (job.evaluation.split, test)):
        if not side.tasks:
            raise JobError(f"suite: no task in split {split!r}")
    shared = sorted({*_asked(train)} & {*_asked(test)})
    if shared:
        raise JobError(f"evaluation: {len(shared)} tasks are trained on, as {shared[0]!r}")
    named = {each.task_id for each in train.tasks}
    held = without_frame([*_said(test).values()])
    rows = []
    if home is not None:
        rows = [row for row in query(TASKS, home) if row["task_id"] not in named]
        held += own_texts(home)
    guard = HeldOut(rows, frozenset({"train", job.suite.data.split or "train"}), held)
    left_out = guard.of_texts({name: [text] for name, text in _said(train).items()})
    kept = tuple(each for each in train.tasks if each.task_id not in left_out)
    if not kept:
        raise JobError(f"suite: all {len(train.tasks)} tasks copy held-out ones")
    return TrainedTasks(kept, left_out)


def _asked(tasks: TaskSet) -> Iterator[str]:
    """What tasks ask: two files may have the same one under two ids. In worlds the prompts may be
    alike, and the id tells tasks apart."""
    for each in tasks.tasks:
        if tasks.benchmark.world is not None:
            yield each.task_id
        else:
            yield " ".join(str(message.get("content")) for message in each.messages)


def _said(tasks: TaskSet) -> dict[str, str]:
    """The prompt of each task. Where a world tells the rest, prompts are alike: none."""
    if tasks.benchmark.world is not None:
        return {}
    return {
        each.task_id: "\n".join(said_in(one for one in each.messages if one["role"] != "system"))
        for each in tasks.tasks
    }
