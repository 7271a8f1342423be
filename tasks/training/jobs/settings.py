"""Settings of a training: those of every job, and the file that the trainer reads. Both
environments import this module, so it depends on pydantic only."""

import math
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tutti.tasks.training.objectives import settings_with

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
CHUNK_ELEMENTS = 2**25
"""Most logits at once, 128 MB in float32: beyond it they are made chunk by chunk, twice."""


class Strict(BaseModel):
    """A frozen model that rejects unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LoraSettings(Strict):
    """A low-rank adapter in place of all weights. Source: arXiv 2106.09685."""

    rank: int = Field(16, ge=1, description="rank of the adapter")
    alpha: float | None = Field(None, gt=0, description="scale; if empty, twice the rank")
    targets: tuple[str, ...] = Field(PROJECTIONS, description="names of the matrices it changes")

    @property
    def scale(self) -> float:
        """`alpha`, by default twice the rank."""
        return self.alpha or 2 * self.rank


class OptimizerSettings(Strict):
    """Settings of AdamW, its schedule and gradient clipping."""

    learning_rate: float = Field(1e-5, gt=0, description="highest learning rate")
    weight_decay: float = Field(0.0, ge=0, description="of matrices; never of norms and biases")
    betas: tuple[float, float] = Field((0.9, 0.95), description="decay of the two moments")
    warmup_share: float = Field(0.03, ge=0, le=1, description="share of the steps that it rises")
    schedule: Literal["cosine", "linear", "constant"] = Field(
        "cosine", description="how the learning rate falls after the warm-up"
    )
    final_share: float = Field(0.0, ge=0, le=1, description="share of the rate left at the end")
    gradient_clip: float = Field(1.0, gt=0, description="longest gradient of a step")

    def rate(self, done: float) -> float:
        """Return the learning rate when a share `done` (0 to 1) of the training is done."""
        if done < self.warmup_share:
            return self.learning_rate * max(done, 1e-3) / self.warmup_share
        left = 1.0 - (done - self.warmup_share) / max(1e-9, 1.0 - self.warmup_share)
        falls = {"cosine": 0.5 * (1 - math.cos(math.pi * left)), "linear": left, "constant": 1.0}
        share = self.final_share + (1 - self.final_share) * falls[self.schedule]
        return self.learning_rate * share


class BatchSettings(Strict):
    """How sequences become steps and micro-batches."""

    sequences: int = Field(32, ge=1, description="sequences a step")
    tokens: int = Field(4096, ge=16, description="most tokens of a micro-batch, padding included")
    max_tokens: int | None = Field(None, ge=2, description="longer sequences are left out")
    layout: Literal["auto", "packed", "rows"] = Field(
        "auto", description="packed: end to end in one row; rows: padded; auto: packed on a GPU"
    )


class Learning(Strict):
    """Settings shared by all trainings: how to learn, and which weights."""

    objective: str = Field("sft", description="sft, dpo, sdpo, kto, …; docs/training.md has all")
    objective_settings: dict[str, Any] = Field({}, description="settings of the objective")
    lora: LoraSettings | None = Field(None, description="train an adapter and not all weights")
    optimizer: OptimizerSettings = Field(OptimizerSettings(), description="AdamW and its schedule")
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="of the arithmetic; the weights are trained in float32"
    )
    gradient_checkpointing: bool = Field(False, description="less memory, a third more time")
    seed: int = Field(0, description="decides the order of the data and the adapter's start")

    @field_validator("objective")
    @classmethod
    def _is_known(cls, name: str) -> str:
        settings_with(name, {})
        return name

    @field_validator("objective_settings")
    @classmethod
    def _are_known(cls, given: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if "objective" in info.data:
            settings_with(info.data["objective"], given)
        return given


class TrainerSettings(Learning):
    """Settings of a training on a fixed set, or on batches that arrive over time."""

    base: Path = Field(description="checkpoint folder")
    data: Path = Field(description="sequences (Parquet) or conversations (JSONL)")
    held_out: Path | None = Field(None, description="measured and never trained on; same forms")
    batch: BatchSettings = BatchSettings()
    epochs: float | None = Field(None, gt=0, description="passes over the data")
    steps: int | None = Field(None, ge=1, description="steps")
    seconds: float | None = Field(None, gt=0, description="ends the training at this time")
    updates: int = Field(1, ge=1, description="updates of a policy's step")
    save_every_s: float = Field(60.0, gt=0, description="seconds between saved states")
    stop_at: float | None = Field(None, description="time at which it is saved and ends")
    evaluate_every: int = Field(50, ge=1, description="steps between held-out measurements")

    @classmethod
    def of(cls, job: Learning, base: Path, data: Path, **more: Any) -> "TrainerSettings":
        """Return the settings for a job, its base and its data."""
        shared = job.model_dump(include=set(Learning.model_fields))
        return cls.model_validate({**shared, "base": base.resolve(), "data": data, **more})

    @model_validator(mode="after")
    def _ends(self) -> "TrainerSettings":
        if self.epochs is None and self.steps is None and self.seconds is None:
            raise ValueError("one of epochs, steps and seconds must say when it ends")
        return self


def steps_of(rows: int, sequences: int, epochs: float | None, steps: int | None) -> int | None:
    """Steps until `epochs` or `steps` is reached, whichever is first; None without either."""
    known = [] if steps is None else [steps]
    if epochs is not None:
        known.append(max(1, round(max(1, -(-rows // sequences)) * epochs)))
    return min(known) if known else None


def best_of(state: Path) -> Path:
    """Return the path of the best checkpoint during training: beside the state, so that it survives
    a kill."""
    return state.with_suffix(".best")
