"""The demo's suites, its training job, and its closing text."""

import os
import shutil
import sys
from pathlib import Path

from pydantic import Field

from tutti.tasks.platform import Strict
from tutti.tasks.platform.progress import StageLog
from tutti.tasks.sweeps.spec import Policy, Suite
from tutti.tasks.synthesis import POCKET_FAMILIES, TaskRequest
from tutti.tasks.training import TrainJob

NEW_FAMILY = "last_parameter"
TUNED = "pocket-tuned"
CAP = 6  # programs at once under `cap`: about what the pocket engine's KV cache holds


class DemoParameters(Strict):
    """The measurements and the training time of the demo."""

    concurrency: tuple[int, ...] = Field((2, 8, 16), description="sessions at once, a cell each")
    tasks_per_family: int = Field(40, ge=1, description="test tasks of each family in the sweep")
    lesson_train: int = Field(300, ge=8, description="training candidates of each lesson family")
    lesson_test: int = Field(24, ge=1, description="test candidates of each lesson family")
    train_seconds: float = Field(75.0, gt=0, description="length of the training step")
    seed: int = Field(0, description="decides which documents are asked about")


SMALL = DemoParameters(
    concurrency=(4,), tasks_per_family=2, lesson_train=24, lesson_test=3, train_seconds=5.0
)
"""The chain in about two minutes, most of which is the engine's start."""


def demo_suites(parameters: DemoParameters) -> tuple[Suite, Suite]:
    """The load sweep's suite, and the suite of the lesson measured before and after it."""
    load_tasks = TaskRequest(
        families=POCKET_FAMILIES,
        train_per_family=0,
        test_per_family=parameters.tasks_per_family,
        seed=parameters.seed,
    )
    lesson_tasks = TaskRequest(
        families=(NEW_FAMILY, "parameter", "module"),
        train_per_family=parameters.lesson_train,
        test_per_family=parameters.lesson_test,
        seed=parameters.seed + 1,
    )
    load = Suite(
        name="demo",
        tasks=load_tasks,
        policies=("passthrough", Policy(name="cap", limit=CAP), "adaptive"),
        concurrency=parameters.concurrency,
    )
    lesson = Suite(
        name="lesson",
        tasks=lesson_tasks,
        concurrency=(8,),
        policies=("cap",),
        sampling={"max_tokens": 64},
    )
    return load, lesson


def lesson_job(parameters: DemoParameters, rows: Path) -> TrainJob:
    """An adapter on the lesson's conversations, for the demo's time."""
    return TrainJob.model_validate(
        {
            "name": "lesson",
            "base": "the demo's model",
            "data": {"file": rows},
            "lora": {"rank": 16},
            "optimizer": {
                "learning_rate": 2e-3,
                "schedule": "linear",
                "warmup_share": 0.1,
                "final_share": 0.05,
            },
            "batch": {"sequences": 24, "tokens": 4096},
            "minutes": parameters.train_seconds / 60,
            "seed": parameters.seed,
        }
    )


def closing_words(log: StageLog, seconds: float) -> str:
    """Return the times of the stages and three SQL lines worth trying."""
    tutti = _how_tutti_was_called()
    times = ", ".join(f"{name} {taken:.0f}" for name, taken in log.seconds.items())
    return f"""
[bold]{seconds:.0f} s in all[/] (seconds: {times})

Ask your own questions; three worth trying:

  {tutti} sql "select policy, concurrency, n, score, steps_per_min, p95_s from results \
where sweep = 'demo' and is_newest order by concurrency, policy"

  {tutti} sql "select sweep, model, sum(n) n, sum(correct) / sum(n) accuracy from results \
where is_newest group by all"

  {tutti} sql "select m.role, m.content, m.tool_calls from counted a join messages m \
using (attempt_id) where not a.is_right order by a.attempt_id, m.position limit 12"
"""


def _how_tutti_was_called() -> str:
    """Return the command to type next: `tutti` if the shell finds it, else its path."""
    called = Path(sys.argv[0])
    if called.name != "tutti" or shutil.which("tutti"):
        return "tutti"
    return os.path.relpath(called)
