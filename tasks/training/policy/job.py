"""A job of on-policy training: its rollouts, its rewards, and how the policy is trained."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from tutti.storage import content_hash
from tutti.tasks.platform import read_document
from tutti.tasks.sweeps.plan import other_models
from tutti.tasks.sweeps.spec import Suite
from tutti.tasks.training.jobs.job import MACHINE_FIELDS, JobError, JobMachine
from tutti.tasks.training.jobs.rewards import GAMMA, PROCESS, weight_reason
from tutti.tasks.training.jobs.settings import Learning, OptimizerSettings, Strict
from tutti.tasks.training.objectives import BY_TURNS, ON_POLICY


class RewardPart(Strict):
    """One part of a reward that is a sum."""

    sql: str = Field(description="expression over the columns of `counted`")
    weight: float = Field(1.0, description="what it is multiplied with")


class Overlong(Strict):
    """DAPO's soft punishment of long answers, added to the reward."""

    most_tokens: int = Field(ge=1, description="completion tokens from which -1 is added")
    buffer_tokens: int = Field(ge=1, description="tokens before that over which it grows from 0")

    @model_validator(mode="after")
    def _fits(self) -> "Overlong":
        if self.buffer_tokens > self.most_tokens:
            raise ValueError(f"buffer_tokens: more than most_tokens ({self.most_tokens})")
        return self


class ProcessReward(Strict):
    """Turns with an extra reward whatever the outcome, picked by a query or by a judge."""

    sql: str | None = Field(None, description="query of attempt_id and step of the picked turns")
    judge: str | None = Field(None, description="entry of models.yaml to ask, once a dialogue")
    prompt: Path | None = Field(None, description="the judge's prompt, with {dialogue} in it")
    weight: float = Field(PROCESS, ge=0, description="what a picked turn earns")

    @model_validator(mode="after")
    def _has_a_source(self) -> "ProcessReward":
        if (self.sql is None) == (self.judge is None):
            raise ValueError("either `sql` or `judge` must say which turns are picked")
        return self


class RewardSettings(Strict):
    """Rewards of attempts, and how they become advantages of tokens."""

    sql: str = Field("coalesce(score, 0)", description="expression over the columns of `counted`")
    parts: dict[str, RewardPart] = Field({}, description="in place of `sql`: a weighted sum")
    preference: dict[str, float] | Literal["task"] = Field(
        {},
        description="in place of `sql`: weights, 0 to 1, of `accuracy`, `cost`, `latency` and of "
        "tools or experts by name (these from -1: avoid it); `task`: those of each task",
    )
    overlong: Overlong | None = Field(None, description="punish long answers")
    process: ProcessReward | None = Field(None, description="rewards of turns besides the outcome")
    gamma: float = Field(GAMMA, gt=0, le=1, description="discount of a turn's advantage")
    advantage: Literal["mean_std", "leave_one_out", "centred", "whitened", "decoupled"] = Field(
        "mean_std", description="how a group's rewards become advantages"
    )
    least_deviation: float = Field(0.0, ge=0, description="groups that deviate less are left out")
    permuted: bool = Field(False, description="a control: rewards change places in their group")

    @property
    def picked(self) -> float:
        """The reward of a picked turn; 0 without a process reward."""
        return 0.0 if self.process is None else self.process.weight

    def weight_of(self, part: str) -> float:
        """Return the weight of a part of the reward."""
        return self.parts[part].weight if part in self.parts else 1.0

    @property
    def weighs_cost(self) -> bool:
        """Whether lower cost is, or may be, part of the reward."""
        return self.preference == "task" or bool(self.preference.get("cost"))

    @field_validator("preference")
    @classmethod
    def _are_shares(cls, weights: Any) -> Any:
        for name, weight in ({} if weights == "task" else weights).items():
            if why := weight_reason(name, weight):
                raise ValueError(f"{name}: {why}")
        return weights

    @model_validator(mode="after")
    def _fit_together(self) -> "RewardSettings":
        if self.parts and self.preference:
            raise ValueError("parts, preference: give one of them")
        if self.advantage == "decoupled" and not self.parts:
            raise ValueError("advantage: decoupled normalises each of `parts`; there are none")
        return self


class DynamicSampling(Strict):
    """DAPO's dynamic sampling: until enough groups have different rewards (arXiv 2503.14476,
    3.2)."""

    round_groups: int = Field(16, ge=1, description="tasks sampled at once")
    most_rounds: int = Field(8, ge=1, description="most rounds of a step")


class RolloutSettings(Strict):
    """Settings of a step's sampling."""

    groups: int = Field(32, ge=1, description="tasks a step, or groups with different rewards")
    dynamic: DynamicSampling | None = Field(None, description="sample until `groups` groups differ")
    engine_sleeps: bool = Field(False, description="the engine frees its card during a step")
    late_factor: float | None = Field(
        None, ge=1, description="median durations that the last tenth of the attempts may take"
    )
    group_size: int = Field(8, ge=2, description="attempts of each task")
    staleness: Literal[0, 1] = Field(
        1, description="1: the next step is rolled out while this one is trained; 0: it waits"
    )

    @model_validator(mode="after")
    def _sleeps_between(self) -> "RolloutSettings":
        if self.engine_sleeps and self.staleness:
            raise ValueError("engine_sleeps: with a staleness of 1 it samples meanwhile; give 0")
        return self


class EvaluationSettings(Strict):
    """Settings of evaluations: held-out tasks, measured greedily before, during and after
    training."""

    split: str = Field("test", description="split of the tasks")
    suite: Suite | None = Field(None, description="held-out tasks of another file or benchmark")
    limit: int | None = Field(None, ge=1, description="only the first N tasks")
    every: int = Field(0, ge=0, description="steps between measurements; 0: first and last only")
    trials: int = Field(1, ge=1, description="attempts a task; above 1 also pass@k, at temperature")


class SelfPlay(Strict):
    """Self-play: an earlier version of the policy plays the other side of a dialogue."""

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
    updates: int = Field(1, ge=1, description="updates a step, each on a part of its sequences")
    batch_tokens: int = Field(8192, ge=16, description="most tokens of a micro-batch")
    steps: int = Field(50, ge=1, description="updates")
    minutes: float | None = Field(None, gt=0, description="no step begins after this time")
    backend_settings: dict[str, Any] = Field({}, description="of another trainer, its own names")
    seed: int = Field(0, description="decides which tasks come when, and their samples")

    @property
    def content(self) -> dict[str, Any]:
        """The settings that the checkpoint's id depends on, besides tasks and base."""
        return self.model_dump(mode="json", exclude=set(NOT_CONTENT))

    @property
    def by_turns(self) -> bool:
        """Whether advantages are per turn instead of per attempt."""
        return self.reward.process is not None or self.objective in BY_TURNS

    @property
    def others(self) -> tuple[str, ...]:
        """Entries of models.yaml that the job needs besides its base."""
        process, rounds = self.reward.process, self.self_play
        names = {*other_models(self.suite), *other_models(self.evaluation.suite or self.suite)}
        if process is not None and process.judge is not None:
            names.add(process.judge)
        if rounds is not None:
            names.add(rounds.opponent)
        return tuple(sorted(names - {self.base}))

    @property
    def trained_by(self) -> dict[str, str]:
        """Entries whose weights the job changes, and the name of the new weights."""
        own = content_hash(self.content)
        opponent = {} if self.self_play is None else {self.self_play.opponent: f"{own} opponent"}
        return {self.base: own, **opponent}

    @model_validator(mode="after")
    def _fits_together(self) -> "PolicyJob":
        if self.objective not in ON_POLICY:
            known = ", ".join(ON_POLICY)
            raise ValueError(f"objective: {self.objective} learns from no groups; one of {known}")
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
    """Read a job's file. Raises JobError with file, line, field and value."""
    try:
        return read_document(path, JobError).check(PolicyJob, {"folder": path.parent})
    except FileNotFoundError:
        raise JobError(f"{path}: no such job") from None
