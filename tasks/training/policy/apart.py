"""The tasks of a policy job that may be trained on: none that copies a held-out text.

In: both sides' tasks and the store. Out: the tasks that are kept, and why others are not. The
same task on both sides is a mistake in the job, and is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tutti.storage import Home, query
from tutti.tasks.leaks import own_texts, said_in, without_frame
from tutti.tasks.sweeps.plan import Problem
from tutti.tasks.training.job import JobError
from tutti.tasks.training.policy.job import PolicyJob
from tutti.tasks.training.sets.guards import TASKS, HeldOut


@dataclass(frozen=True)
class TrainedTasks:
    """The tasks that a job rolls out."""

    kept: tuple[Problem, ...]
    left_out: dict[str, str]
    """Task to reason."""


def keep_apart(
    train: Sequence[Problem], test: Sequence[Problem], job: PolicyJob, home: Home | None
) -> TrainedTasks:
    """Leave out tasks that copy one of `test`, of another split in the store, or of the user's own
    files. Without a store, only `test` is compared.

    Raises JobError where a side has no task, or a task is on both.
    """
    for split, problems in (("train", train), (job.evaluation.split, test)):
        if not problems:
            raise JobError(f"suite: no task in split {split!r}")
    shared = sorted({_asked(each) for each in train} & {_asked(each) for each in test})
    if shared:
        raise JobError(f"evaluation: {len(shared)} tasks are trained on, as {shared[0]!r}")
    named = {each.task_id for each in train}
    held = without_frame([_said(each) for each in test if each.world is None])
    rows = []
    if home is not None:
        rows = [row for row in query(TASKS, home) if row["task_id"] not in named]
        held += own_texts(home)
    guard = HeldOut(rows, frozenset({"train", job.suite.data.split or "train"}), held)
    # Where a world tells the rest, prompts are alike.
    left_out = guard.of_texts({each.task_id: [_said(each)] for each in train if each.world is None})
    kept = tuple(each for each in train if each.task_id not in left_out)
    if not kept:
        raise JobError(f"suite: all {len(train)} tasks copy held-out ones")
    return TrainedTasks(kept, left_out)


def _asked(problem: Problem) -> str:
    """What a task asks: two files may have the same one under two ids. In worlds the prompts may be
    alike, and the id tells tasks apart."""
    if problem.world is not None:
        return problem.task_id
    return " ".join(str(each.get("content")) for each in problem.messages)


def _said(problem: Problem) -> str:
    return "\n".join(said_in(each for each in problem.messages if each["role"] != "system"))
