"""A job of on-policy training: what is rolled out, what it earns, how the policy is trained."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tutti.tasks.config import read_document
from tutti.tasks.sweeps.spec import Suite
from tutti.tasks.training.job import JobError, JobMachine
from tutti.tasks.training.settings import OptimizerSettings


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RolloutSettings(_Strict):
    """What is sampled for a step."""

    groups: int = Field(32, ge=1, description="tasks a step")
    group_size: int = Field(8, ge=2, description="attempts of each task")
    staleness: Literal[0, 1] = Field(
        1,
        description="updates that the weights which sample may lag behind: 1 rolls the next step "
        "out while this one is trained; 0 waits",
    )


class RewardSettings(_Strict):
    """What an attempt earns, and what that says of its tokens."""

    sql: str = Field(
        "coalesce(score, 0)",
        description="expression over the columns of `attempts`: score - 0.1 * least(cost_usd, 1)",
    )
    advantage: Literal["mean_std", "leave_one_out", "centred"] = Field(
        "mean_std", description="how a group's rewards become advantages"
    )
    least_deviation: float = Field(
        0.0, ge=0, description="groups whose rewards deviate by less teach nothing and are left out"
    )
    permuted: bool = Field(
        False, description="a control: rewards change places within their group, so none is earned"
    )


class EvaluationSettings(_Strict):
    """Held-out tasks, measured greedily before, within and after the training."""

    split: str = Field("test", description="split of the tasks")
    limit: int | None = Field(None, ge=1, description="only the first N tasks")
    every: int = Field(0, ge=0, description="steps between measurements; 0: first and last only")
    trials: int = Field(1, ge=1, description="attempts a task; above 1 also pass@k, at temperature")


class PolicyJob(JobMachine):
    """One on-policy training, from a base to a checkpoint."""

    name: str = Field("policy", description="name of the job")
    base: str = Field(description="an entry of models.yaml with a checkpoint and an engine")
    suite: Suite = Field(description="what is rolled out: benchmark, agent, tools, limits")
    rollouts: RolloutSettings = RolloutSettings()
    reward: RewardSettings = RewardSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    objective: str = Field("grpo", description="grpo, dapo, dr_grpo, gspo, cispo, reinforce, epo")
    objective_settings: dict[str, Any] = Field({}, description="settings of the objective")
    optimizer: OptimizerSettings = OptimizerSettings(
        learning_rate=1e-6, betas=(0.9, 0.99), schedule="constant", warmup_share=0.0
    )
    batch_tokens: int = Field(8192, ge=16, description="most tokens of a micro-batch")
    steps: int = Field(50, ge=1, description="updates")
    minutes: float | None = Field(None, gt=0, description="no step begins after this time")
    dtype: Literal["auto", "float32", "bfloat16"] = Field("auto", description="of the arithmetic")
    seed: int = Field(0, description="decides which tasks come when, and their samples")

    @model_validator(mode="after")
    def _samples(self) -> "PolicyJob":
        if self.suite.sampling.temperature <= 0:
            raise ValueError("suite.sampling.temperature: 0 gives a group of equal attempts; use 1")
        if len(self.suite.policies) > 1 or len(self.suite.concurrency) > 1:
            raise ValueError("suite: one policy and one concurrency; rollouts are no comparison")
        return self


def read_policy_job(path: Path) -> PolicyJob:
    """A job's file. Raises JobError with file, line, field and value."""
    try:
        return read_document(path, JobError).check(PolicyJob)
    except FileNotFoundError:
        raise JobError(f"{path}: no such job") from None
