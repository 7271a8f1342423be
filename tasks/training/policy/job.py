"""A job of on-policy training: what is rolled out, what it earns, how the policy is trained."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from tutti.storage import content_hash
from tutti.tasks.config import read_document
from tutti.tasks.sweeps.plan import other_models
from tutti.tasks.sweeps.spec import Suite
from tutti.tasks.training.job import MACHINE_FIELDS, JobError, JobMachine
from tutti.tasks.training.objectives import BY_TURNS, ON_POLICY
from tutti.tasks.training.policy.reward import RewardSettings
from tutti.tasks.training.settings import Learning, OptimizerSettings, Strict


class DynamicSampling(Strict):
    """DAPO's: sample on until enough groups have different rewards (arXiv 2503.14476, 3.2)."""

    round_groups: int = Field(16, ge=1, description="tasks sampled at once")
    most_rounds: int = Field(
        8, ge=1, description="rounds after which the step takes the groups that there are"
    )


class RolloutSettings(Strict):
    """What is sampled for a step."""

    groups: int = Field(
        32, ge=1, description="tasks a step; with `dynamic`: groups that teach something"
    )
    dynamic: DynamicSampling | None = Field(
        None, description="sample until `groups` groups have different rewards"
    )
    engine_sleeps: bool = Field(
        False,
        description="the engine gives its card's memory back while a step is trained; with a "
        "staleness of 0",
    )
    late_factor: float | None = Field(
        None,
        ge=1,
        description="once 9 of 10 attempts have ended, the rest get so many times the median "
        "duration and are then left out; default: all are waited for",
    )
    group_size: int = Field(8, ge=2, description="attempts of each task")
    staleness: Literal[0, 1] = Field(
        1,
        description="updates that the weights which sample may lag behind: 1 rolls the next step "
        "out while this one is trained; 0 waits",
    )

    @model_validator(mode="after")
    def _sleeps_between(self) -> "RolloutSettings":
        if self.engine_sleeps and self.staleness:
            raise ValueError("engine_sleeps: with a staleness of 1 it samples meanwhile; give 0")
        return self


class EvaluationSettings(Strict):
    """Held-out tasks, measured greedily before, within and after the training."""

    split: str = Field("test", description="split of the tasks")
    suite: Suite | None = Field(
        None,
        description="measured in place of the split: held-out tasks of another file or benchmark",
    )
    limit: int | None = Field(None, ge=1, description="only the first N tasks")
    every: int = Field(0, ge=0, description="steps between measurements; 0: first and last only")
    trials: int = Field(1, ge=1, description="attempts a task; above 1 also pass@k, at temperature")


class SelfPlay(Strict):
    """The other side of a dialogue is played by the policy itself, as it was some rounds before."""

    opponent: str = Field(description="entry of models.yaml that plays the other side")
    every: int = Field(20, ge=1, description="steps of a round; then it gets the policy's weights")


NOT_CONTENT = MACHINE_FIELDS | {"name", "backend_settings"}
"""Not part of a checkpoint's id; with settings of another trainer, tutti trains nothing."""


class PolicyJob(Learning, JobMachine):
    """One on-policy training, from a base to a checkpoint."""

    name: str = Field("policy", description="name of the job")
    base: str = Field(description="an entry of models.yaml with a checkpoint and an engine")
    suite: Suite = Field(description="what is rolled out: benchmark, agent, tools, limits")
    rollouts: RolloutSettings = Field(RolloutSettings(), description="what is sampled for a step")
    reward: RewardSettings = Field(RewardSettings(), description="what an attempt earns")
    evaluation: EvaluationSettings = Field(
        EvaluationSettings(), description="the held-out tasks, and when they are measured"
    )
    objective: str = Field("grpo", description="grpo, dapo, dr_grpo, gspo, cispo, reinforce, epo")
    optimizer: OptimizerSettings = Field(
        OptimizerSettings(
            learning_rate=1e-6, betas=(0.9, 0.99), schedule="constant", warmup_share=0.0
        ),
        description="AdamW, its schedule and the bound of the gradient",
    )
    self_play: SelfPlay | None = Field(None, description="rounds against its own earlier weights")
    updates: int = Field(
        1,
        ge=1,
        description="of a step: its sequences in so many parts, one after another; from the "
        "second on, the ratio to the weights that sampled matters",
    )
    batch_tokens: int = Field(8192, ge=16, description="most tokens of a micro-batch")
    steps: int = Field(50, ge=1, description="updates")
    minutes: float | None = Field(None, gt=0, description="no step begins after this time")
    backend_settings: dict[str, Any] = Field(
        {}, description="for --write-only: settings of the backend, in its own names"
    )
    seed: int = Field(0, description="decides which tasks come when, and their samples")

    @property
    def content(self) -> dict[str, Any]:
        """What decides its checkpoint, beside its tasks and its base."""
        return self.model_dump(mode="json", exclude=set(NOT_CONTENT))

    @property
    def by_turns(self) -> bool:
        """Whether each turn has an advantage of its own, and not each attempt."""
        return self.reward.process is not None or self.objective in BY_TURNS

    @property
    def others(self) -> tuple[str, ...]:
        """Entries of models.yaml that it needs besides its base."""
        process = self.reward.process
        judge = None if process is None else process.judge
        opponent = None if self.self_play is None else self.self_play.opponent
        held_out = self.evaluation.suite or self.suite
        named = {*other_models(self.suite), *other_models(held_out), judge, opponent}
        named -= {None, self.base}
        return tuple(sorted(name for name in named if name is not None))

    @property
    def trained_by(self) -> dict[str, str]:
        """Entries whose weights the job changes, and by what name."""
        own = content_hash(self.content)
        opponent = {} if self.self_play is None else {self.self_play.opponent: f"{own} opponent"}
        return {self.base: own, **opponent}

    @model_validator(mode="after")
    def _has_its_objective(self) -> "PolicyJob":
        if self.objective not in ON_POLICY:
            known = ", ".join(ON_POLICY)
            raise ValueError(f"objective: {self.objective} learns from no groups; one of {known}")
        return self

    @model_validator(mode="after")
    def _samples(self) -> "PolicyJob":
        if self.suite.sampling.temperature <= 0:
            raise ValueError("suite.sampling.temperature: 0 gives a group of equal attempts; use 1")
        if self.self_play is not None and self.lora is not None:
            raise ValueError("self_play: the opponent gets whole weights, and `lora` makes none")
        if self.self_play is not None and self.self_play.opponent == self.base:
            raise ValueError("self_play.opponent: an entry of its own, with the base's checkpoint")
        for name, suite in (("suite", self.suite), ("evaluation.suite", self.evaluation.suite)):
            if suite is not None and (len(suite.policies) > 1 or len(suite.concurrency) > 1):
                raise ValueError(f"{name}: one policy and one concurrency; it is no comparison")
        return self


def read_policy_job(path: Path) -> PolicyJob:
    """A job's file. Raises JobError with file, line, field and value."""
    try:
        return read_document(path, JobError).check(PolicyJob, {"folder": path.parent})
    except FileNotFoundError:
        raise JobError(f"{path}: no such job") from None
