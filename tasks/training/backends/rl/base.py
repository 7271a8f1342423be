"""What every backend of policy jobs has, and what its configuration is made from."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti.tasks.project import PACKAGE
from tutti.tasks.scoring import Scorer
from tutti.tasks.sweeps.plan import TaskSet
from tutti.tasks.sweeps.spec import reply_tokens
from tutti.tasks.task_sets import Task
from tutti.tasks.training.backends.base import flat, set_at
from tutti.tasks.training.objectives import Clipping, settings_with
from tutti.tasks.training.policy.job import PolicyJob

TEMPLATE_TOKENS = 64
"""Most tokens that a chat template adds to a message, with room for its opening."""


@dataclass(frozen=True)
class PolicyPlan:
    """A policy job for a backend, its tasks, and the folder that it is written to."""

    job: PolicyJob
    base: Path
    context_tokens: int
    """Of prompt and answer together, as the base's entry of models.yaml says."""
    train: TaskSet
    held_out: TaskSet
    folder: Path

    @property
    def clip(self) -> Clipping:
        """The objective's settings: published ones, and the job's over them."""
        found = settings_with(self.job.objective, self.job.objective_settings)
        assert isinstance(found, Clipping), f"{self.job.objective} has no clipping"
        return found

    @property
    def answer_tokens(self) -> int:
        """Most tokens of an answer."""
        return reply_tokens(self.job.suite, self.context_tokens)

    @property
    def held_out_tokens(self) -> int:
        """Most tokens of an answer to a held-out task."""
        return reply_tokens(self.job.evaluation.suite or self.job.suite, self.context_tokens)

    @property
    def prompt_tokens(self) -> int:
        """A bound of the longest prompt: a token is at least a byte, whatever the tokenizer."""
        sizes = (
            sum(len(str(each["content"]).encode()) + TEMPLATE_TOKENS for each in task.messages)
            for task in (*self.train.tasks, *self.held_out.tasks)
        )
        return max(1, min(max(sizes), self.context_tokens - self.answer_tokens))

    @property
    def attempts(self) -> int:
        """Attempts a step."""
        return self.job.rollouts.groups * self.job.rollouts.group_size

    @property
    def warmup_steps(self) -> int:
        """Steps in which the learning rate rises."""
        return round(self.job.steps * self.job.optimizer.warmup_share)

    @property
    def measured_every(self) -> int:
        """Steps between held-out measurements; all, where the job asks for first and last only."""
        return self.job.evaluation.every or self.job.steps

    @property
    def gpus(self) -> int:
        """GPUs that the job names; 1 without any."""
        asked = self.job.gpus
        return len(asked) if isinstance(asked, tuple) else asked or 1

    @property
    def is_half(self) -> bool:
        """Whether it calculates in bfloat16."""
        return self.job.dtype != "float32"


@dataclass(frozen=True)
class PolicyBackend:
    """A trainer of somebody else's, for policy jobs."""

    name: str
    refuse: Callable[[PolicyPlan], list[str]]
    """What it cannot do of a job, each with its field."""
    configuration: Callable[[PolicyPlan], dict[str, Any]]
    """Its own settings from a job; nested where its are."""
    write: Callable[[PolicyPlan, Mapping[str, Any]], tuple[str, str]]
    """(text of its configuration's file, lines of `launch.sh`) for its settings."""
    write_data: Callable[[PolicyPlan, Path], None]
    """Writes the tasks and the reward function into a folder."""
    differences: Callable[[PolicyPlan], list[str]]
    """What it does otherwise than tutti, and a job cannot change."""
    config_file: str

    @property
    def schema(self) -> str:
        """The name of its schema: in `CHECKS`, and in `keys/`."""
        return f"{self.name}-rl"


def policy_settings(backend: PolicyBackend, plan: PolicyPlan) -> dict[str, Any]:
    """The backend's settings: those of the job, and `backend_settings` over them."""
    made = backend.configuration(plan)
    for name, value in flat(plan.job.backend_settings):
        set_at(made, name.split("."), value)
    return made


def truth_of(scorer: Scorer, task: Task) -> str:
    """What the reward function is told of a task: its scorer, and the scorer's target."""
    return json.dumps(
        {"scorer": scorer.name, "version": scorer.version, "target": dict(task.target)}
    )


def messages_of(task: Task) -> list[dict[str, str]]:
    """A task's prompt as messages of text."""
    return [{"role": str(m["role"]), "content": str(m["content"])} for m in task.messages]


def with_tutti(launch: str) -> str:
    """Lines of `launch.sh` that begin with tutti's sources, whose scorers the reward calls."""
    return (
        f'export PYTHONPATH="${{TUTTI:-{PACKAGE.parent}}}${{PYTHONPATH:+:$PYTHONPATH}}"\n'
        "export HF_HUB_OFFLINE=1\n" + launch
    )
