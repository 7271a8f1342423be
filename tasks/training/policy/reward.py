"""What a policy job's attempts earn: the settings, which a job's file names."""

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from tutti.tasks.training.rewards.preference import weight_reason
from tutti.tasks.training.rewards.turns import GAMMA, PROCESS
from tutti.tasks.training.settings import Strict


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
    """Which turns are worth more, whatever the outcome: by a query, or by a judge."""

    sql: str | None = Field(
        None,
        description="query that gives attempt_id and step of the turns that are picked: "
        "select attempt_id, min(step) as step from tool_runs where status = 'ok' "
        "group by attempt_id, name",
    )
    judge: str | None = Field(
        None, description="entry of models.yaml that is asked, once a dialogue"
    )
    prompt: Path | None = Field(
        None, description="the judge's prompt, with {dialogue} in it; default: a built-in one"
    )
    weight: float = Field(PROCESS, ge=0, description="what a picked turn earns")

    @model_validator(mode="after")
    def _has_a_source(self) -> "ProcessReward":
        if (self.sql is None) == (self.judge is None):
            raise ValueError("either `sql` or `judge` must say which turns are picked")
        return self


class RewardSettings(Strict):
    """What an attempt earns, and what that says of its tokens."""

    sql: str = Field(
        "coalesce(score, 0)",
        description="expression over the columns of `counted`: score - 0.1 * least(cost_usd, 1)",
    )
    parts: dict[str, RewardPart] = Field(
        {}, description="in place of `sql`: named parts, whose weighted sum is the reward"
    )
    preference: dict[str, float] | Literal["task"] = Field(
        {},
        description="in place of `sql`: weights, 0 to 1, of `accuracy`, `cost`, `latency` and of "
        "tools or experts by name (these from -1: avoid it; a preferred one counts once, if a "
        "call succeeded); each is min-max scaled over the group, and the unsolved earn 0; "
        "`task`: each task's own, of a set made with `tutti derive --preferences`",
    )
    overlong: Overlong | None = Field(None, description="punish long answers")
    process: ProcessReward | None = Field(None, description="rewards of turns besides the outcome")
    gamma: float = Field(
        GAMMA,
        gt=0,
        le=1,
        description="discount of a turn, where turns have advantages of their own",
    )
    advantage: Literal["mean_std", "leave_one_out", "centred", "whitened", "decoupled"] = Field(
        "mean_std",
        description="how a group's rewards become advantages; whitened: over the whole batch; "
        "decoupled: each of `parts` by itself",
    )
    least_deviation: float = Field(
        0.0, ge=0, description="groups whose rewards deviate by less teach nothing and are left out"
    )
    permuted: bool = Field(
        False, description="a control: rewards change places within their group, so none is earned"
    )

    @property
    def picked(self) -> float:
        """What a picked turn earns; 0 where none is picked."""
        return 0.0 if self.process is None else self.process.weight

    @property
    def weighs_cost(self) -> bool:
        """Whether a preference for lower cost is, or may be, part of it."""
        return self.preference == "task" or bool(self.preference.get("cost"))

    @field_validator("preference")
    @classmethod
    def _are_shares(
        cls, weights: dict[str, float] | Literal["task"]
    ) -> dict[str, float] | Literal["task"]:
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
