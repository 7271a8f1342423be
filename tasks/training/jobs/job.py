"""A training job: a file of `deployments/training`, or the flags of `tutti train`."""

import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator

from tutti.errors import UsageError
from tutti.storage import Home, query
from tutti.tasks.platform import explain, read_document
from tutti.tasks.platform.gpus import GpuClaim
from tutti.tasks.training.jobs.settings import BatchSettings, Learning, Strict
from tutti.tasks.training.objectives import PAIRS, SUPERVISED

VARIABLE = "SLURM_JOB_END_TIME"
"""Seconds since the epoch."""
RESERVE_S, RESERVE_SHARE = 180.0, 0.1
"""Time reserved for the end, at most this share of the time left at the start: weights are written,
and Slurm counts in minutes. Slurm's signal (deployments/slurm) comes 60 to 105 s before the limit.
"""
BEGAN_AT = time.time()
"""The start of `wall_time_minutes`."""
BackendName = Literal["tutti", "llama-factory", "trl", "verl", "nemo-rl", "prime-rl"]


class JobError(UsageError):
    """A training job is invalid, or its data cannot be trained on; the message says where."""


def rows_of(
    sql: str, home: Home, field: str, parameters: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return the rows of the SQL statement in a job's field. Raises JobError with the field."""
    try:
        return query(sql, home, parameters)
    except Exception as error:  # whatever DuckDB says of somebody's statement
        raise JobError(f"{field}: {error}") from None


class TextEmbedder(Strict):
    """An OpenAI-compatible embedder, such as a vLLM engine in the models environment."""

    url: str = Field(description="its base, ending in /v1")
    model: str = Field(description="the model that it embeds with")
    dimensions: int = Field(ge=1, description="width of its vectors")


class TrainingData(Strict):
    """The training data: attempts that a query selects, or conversations in a file."""

    model_config = ConfigDict(populate_by_name=True)

    query: str | None = Field(
        None,
        alias="from",
        description="SQL that gives `attempt_id`, and `weight` or `wanted` where the objective "
        "reads it; or `chosen` and `rejected` attempts for pairs",
    )
    file: Path | None = Field(None, description="JSONL of conversations, in place of a query")
    tokens: Literal["recorded", "template"] = Field(
        "recorded", description="ids that the engine drew, or messages by the base's template"
    )
    splits: tuple[str, ...] = Field(("train",), description="splits that may be trained on")
    embedder: TextEmbedder | None = Field(None, description="finds reworded held-out questions")
    near_held_out: float | None = Field(
        None, gt=0, lt=1, description="least cosine by `embedder` of a reworded question [0.7]"
    )
    held_out_share: float = Field(0.0, ge=0, lt=1, description="share of the tasks held out")

    @model_validator(mode="after")
    def _one_source(self) -> "TrainingData":
        if (self.query is None) == (self.file is None):
            raise ValueError("either `from` (a query) or `file` must say what is trained on")
        return self


class JobMachine(Strict):
    """Where and when a job runs. Nothing here changes the job's result."""

    gpus: int | tuple[int | str, ...] | None = Field(
        None, description="number of GPUs, or their indexes or uuids; default: one if there is any"
    )
    gpu_wait_minutes: float = Field(60.0, ge=0, description="wait for GPUs that others hold")
    wall_time_minutes: float | None = Field(
        None, gt=0, description="it is saved before, and ends with exit code 5"
    )

    @property
    def stop_at(self) -> float | None:
        """Return when no more steps may begin, in seconds since the epoch: the sooner of
        `wall_time_minutes` and Slurm's limit, or None without either. The training then saves its
        state and ends as incomplete. Raises UsageError for a SLURM_JOB_END_TIME that is not a
        time."""
        given, minutes = os.environ.get(VARIABLE) or "inf", self.wall_time_minutes
        try:
            end = min(float(given), math.inf if minutes is None else BEGAN_AT + minutes * 60)
        except ValueError:
            raise UsageError(f"{VARIABLE}={given!r} is not a time in seconds") from None
        if math.isinf(end):
            return None
        return end - min(RESERVE_S, max(0.0, end - BEGAN_AT) * RESERVE_SHARE)

    def claim(self, run_id: str, work: str) -> GpuClaim:
        """Return a claim on the job's GPUs, for a run that does `work`."""
        return GpuClaim(self.gpus, run_id, work, self.gpu_wait_minutes * 60)


MACHINE_FIELDS = frozenset(JobMachine.model_fields)
"""Not part of a checkpoint's id."""


class TrainJob(Learning, JobMachine):
    """One training, from data to checkpoint."""

    name: str = Field("training", description="name of the job, shown in reports")
    base: str = Field(
        description="an entry of models.yaml with weights, a folder, or NAME@REVISION of the Hub"
    )
    data: TrainingData = Field(description="what is trained on")
    backend: BackendName = Field("tutti", description="the trainer; docs/backends.md has all")
    backend_settings: dict[str, Any] = Field({}, description="of another backend, its own names")
    batch: BatchSettings = Field(BatchSettings(), description="sizes of steps and micro-batches")
    epochs: float | None = Field(None, gt=0, description="passes over the data; default: 1")
    steps: int | None = Field(None, ge=1, description="steps")
    minutes: float | None = Field(None, gt=0, description="ends the training at this time")
    save_every_s: float = Field(60.0, gt=0, description="seconds between saved states")

    @property
    def passes(self) -> float | None:
        """Passes over the data; 1 if no field limits the training."""
        ends = (self.epochs, self.steps, self.minutes)
        return 1.0 if ends == (None, None, None) else self.epochs

    @model_validator(mode="after")
    def _fits_together(self) -> "TrainJob":
        if self.backend == "tutti" and self.backend_settings:
            raise ValueError("backend_settings: are for another `backend` than tutti")
        from_file = self.data.file is not None
        if self.objective in PAIRS and from_file:
            raise ValueError(f"objective: {self.objective} compares attempts; give `data.from`")
        if self.objective not in SUPERVISED and (from_file or self.data.tokens == "template"):
            raise ValueError(
                f"objective: {self.objective} reads recorded log probabilities; give `data.from` "
                "with `tokens: recorded`"
            )
        if self.objective == "dr_grpo" and self.batch.max_tokens is None:
            raise ValueError("batch.max_tokens: dr_grpo divides by it; give the longest answer")
        return self


def job_with(path: Path | None, given: Mapping[str, Any]) -> TrainJob:
    """Return the job of a file, or a default one, with the `given` fields that are not None. Raises
    JobError with the field."""
    content = {} if path is None else read_job(path).model_dump(mode="json", exclude_none=True)
    if ("data" in content and given.get("data", {}).get("from")) or given["data"].get("file"):
        content.get("data", {}).pop("query", None)
        content.get("data", {}).pop("file", None)
    if not (content.get("data") or any(value is not None for value in given["data"].values())):
        raise JobError("no data: --from with a query, --file with conversations, or a job file")
    try:
        return TrainJob.model_validate(_merged(content, given))
    except ValidationError as error:
        raise JobError(explain(error, model=TrainJob)) from None


def _merged(content: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(content)
    for name, value in given.items():
        if isinstance(value, Mapping):
            value = _merged(merged.get(name) or {}, value) or None
        if value is not None:
            merged[name] = value
    return merged


def read_job(path: Path) -> TrainJob:
    """Read a job's file. Raises JobError with file, line, field and value."""
    try:
        return read_document(path, JobError).check(TrainJob)
    except FileNotFoundError:
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml"))) or "none"
        raise JobError(f"{path}: no such job; known there: {known}") from None
