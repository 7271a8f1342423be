"""Suite files: what to measure. One frozen model is the file's keys, the flow's parameters and
the command line's flags."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tutti.tasks.benchmarks import BenchmarkError, benchmark_named, parse_benchmark
from tutti.tasks.config import read_document
from tutti.tasks.sweeps import SuiteError
from tutti.tasks.sweeps.spec.cron import check_cron
from tutti.tasks.sweeps.spec.gate_file import Gate
from tutti.tasks.sweeps.spec.load import Load
from tutti.tasks.sweeps.spec.marks import AXIS, CELL, MODELS, RUN, SWEEP, TASKS
from tutti.tasks.sweeps.spec.policy import CAP, GivenPolicy, Policy, labels_of
from tutti.tasks.synthesis import TaskRequest

STDLIB = "stdlib"
__all__ = [
    "STDLIB",
    "Budget",
    "Saturation",
    "Suite",
    "SuiteError",
    "Sure",
    "read_suite",
    "with_fields",
]


class Budget(BaseModel):
    """What a run may take; when it is spent no more samples are given out."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    minutes: float | None = Field(None, gt=0, description="of the whole run")
    usd: float | None = Field(None, gt=0, description="of its attempts, judges and users")


class Saturation(BaseModel):
    """When a cell is over-saturated, and ends."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    step_latency_p95: float = Field(gt=0, description="seconds that it surely exceeds")


class Sure(BaseModel):
    """When a cell's accuracy is decided, and it ends."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    margin: float = Field(0.05, ge=0, lt=1, description="within it two accuracies are the same")


class Suite(BaseModel):
    """A grid of cells: benchmark x model x policy x concurrency x repeat."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: Annotated[str, SWEEP] = Field(
        "demo", pattern=r"^[a-z0-9][a-z0-9-]*$", description="the sweep's name"
    )
    benchmark: Annotated[str, SWEEP] = Field(
        STDLIB, description="stdlib, or a public benchmark: gsm8k, aime-25:16, name@revision"
    )
    benchmarks: Annotated[tuple[str, ...], AXIS] = Field(
        (), description="several in place of `benchmark`; `source` has a folder for each"
    )
    tasks: Annotated[TaskRequest, TASKS] = Field(
        default_factory=lambda: TaskRequest(),
        description="of stdlib: the task set; its test split is run",
    )
    source: Annotated[Path | None, TASKS] = Field(
        None, description="of a public benchmark: its data's file or folder, instead of the hub"
    )
    split: Annotated[str | None, TASKS] = Field(
        None, description="of a public benchmark: other than its own"
    )
    limit: Annotated[int | None, TASKS] = Field(
        None, ge=1, description="of a public benchmark: the first so many"
    )
    ids: Annotated[tuple[str, ...] | None, TASKS] = Field(
        None, description="of a public benchmark: these items"
    )
    where: Annotated[str | None, TASKS] = Field(
        None, description="SQL over the items' attributes: subject = 'x'"
    )
    prompt: Annotated[str | None, TASKS] = Field(
        None, description="a prompt of tutti's, or a .yaml file"
    )
    model: Annotated[str, MODELS] = Field("pocket", description="a model of models.yaml")
    models: Annotated[tuple[str, ...], AXIS] = Field(
        (), description="several in place of `model`, one after another"
    )
    judge: Annotated[str | None, MODELS] = Field(
        None, description="a model of models.yaml that scores answers"
    )
    user: Annotated[str | None, MODELS] = Field(
        None, description="a model of models.yaml that plays the user"
    )
    agent: Annotated[str | None, MODELS] = Field(
        None, description="an orchestrator of deployments/agents, or a .yaml file; else one model"
    )
    experts: Annotated[dict[str, str], MODELS] = Field(
        {}, description="other models for those that the agent's file names: name to name"
    )
    search_url: Annotated[str | None, SWEEP] = Field(
        None, description="of a public benchmark: a retrieval service that `agent` searches"
    )
    policies: Annotated[tuple[GivenPolicy, ...], AXIS] = Field(
        ("passthrough", "cap"), description="the gateway's scheduling rules to compare"
    )
    concurrency: Annotated[tuple[int, ...], AXIS] = Field(
        (2, 8, 16), description="sessions at once, one cell for each"
    )
    engines: Annotated[int, CELL] = Field(1, ge=1, description="of the model, behind one gateway")
    cap: Annotated[int, CELL] = Field(
        8, ge=1, description="programs at once under the policy `cap`"
    )
    order: Annotated[Literal["abba", "random"], RUN] = Field(
        "abba", description="of the policies at a level: there and back, or drawn anew each time"
    )
    interleave: Annotated[bool, RUN] = Field(
        False,
        description="of several models: measure them level by level, with all engines running, "
        "instead of one model after another",
    )
    load: Annotated[Load, CELL] = Field(Load(), description="how sessions start")
    repeats: Annotated[int, AXIS] = Field(
        1, ge=1, description="times each cell is run, with other seeds"
    )
    a_a: Annotated[bool, AXIS] = Field(
        False, description="measure the first policy of a level once more: the noise of the machine"
    )
    trials: Annotated[int, SWEEP] = Field(1, ge=1, description="samples of each task in a cell")
    per_session: Annotated[int, CELL] = Field(
        0, ge=0, description="at least so many samples for each session; trials are added"
    )
    cell_s: Annotated[float | None, CELL] = Field(
        None, gt=0, description="a cell ends after so long, seconds"
    )
    saturation: Annotated[Saturation | None, RUN] = Field(
        None, description="a cell that is over-saturated ends"
    )
    stop_when_sure: Annotated[Sure | None, RUN] = Field(
        None, description="a cell whose accuracy is decided, against the first of its level, ends"
    )
    budget: Annotated[Budget, RUN] = Field(
        Budget(), description="the run ends when it is spent; another goes on"
    )
    windows: Annotated[dict[str, tuple[float, float]], RUN] = Field(
        {}, description="named windows of each cell, [start, end) in seconds, for SQL"
    )
    gates: Annotated[tuple[Gate, ...], RUN] = Field(
        (), description="what it must reach: `tutti gate`, nightly"
    )
    baseline: Annotated[str | None, RUN] = Field(
        None, description="a sweep that the gates' margins refer to"
    )
    schedule: Annotated[str | None, RUN] = Field(
        None, description="cron of the deployment nightly, in UTC"
    )
    temperature: Annotated[float, SWEEP] = Field(0.0, ge=0.0, description="0 is greedy")
    max_tokens: Annotated[int, SWEEP] = Field(96, ge=1, description="most tokens of one reply")
    max_turns: Annotated[int, SWEEP] = Field(8, ge=1, description="most calls of one attempt")
    working_s: Annotated[float, SWEEP] = Field(
        120.0, gt=0, description="longest an attempt may work, seconds; what others take is not"
    )
    attempt_usd: Annotated[float | None, SWEEP] = Field(
        None, gt=0, description="most that one attempt's calls and tools may cost"
    )
    command: Annotated[str | None, SWEEP] = Field(
        None, description="of a public benchmark: a harness to run for each sample, as a shell line"
    )
    mcp: Annotated[str | None, SWEEP] = Field(
        None, description="of a public benchmark: an MCP server (URL or shell line) as its tools"
    )
    python: Annotated[Literal["once", "session"], SWEEP] = Field(
        "once", description="of stdlib: whether the tool python keeps an attempt's variables"
    )
    command_s: Annotated[float, SWEEP] = Field(
        600.0, gt=0, description="longest that `command` may take, seconds"
    )
    unsafe_sandbox: Annotated[bool, RUN] = Field(
        False,
        description="run programs that models write without walls where this machine has none: "
        "they can read what you can",
    )
    max_attempts: Annotated[int, RUN] = Field(
        3, ge=1, description="attempts at a sample that infra errors void"
    )

    @model_validator(mode="after")
    def _fields_agree(self) -> "Suite":
        chosen = ["source", "split", "limit", "ids", "where", "prompt", "command", "mcp"]
        chosen += ["judge", "user", "search_url"]
        if self.experts and self.agent is None:
            raise ValueError("`experts` are an agent's: name it with `agent`")
        if self.search_url is not None and self.agent is None:
            raise ValueError("`search_url` is what an agent searches: name it with `agent`")
        if self.python == "session" and (self.benchmark != STDLIB or self.agent is not None):
            raise ValueError("`python: session` is stdlib's: nobody else is given the tool python")
        if self.agent is not None and (self.command is not None or self.mcp is not None):
            raise ValueError("`agent` is tutti's own: it takes neither `command` nor `mcp`")
        if self.saturation is not None and self.command is not None:
            raise ValueError(
                "`saturation` watches the steps of tutti's agent; `command` has its own"
            )
        if self.benchmarks:
            return self  # each part is looked at by itself
        if self.benchmark == STDLIB:
            if given := [name for name in chosen if getattr(self, name) is not None]:
                raise ValueError(f"stdlib has no {', '.join(given)}; its tasks say what is made")
            return self
        if parse_benchmark(self.benchmark).trials > 1 and self.trials > 1:
            raise ValueError("trials are given twice, by `benchmark` and by `trials`")
        return self

    @model_validator(mode="after")
    def _axes_agree(self) -> "Suite":
        for one, several in (("benchmark", "benchmarks"), ("model", "models")):
            if (
                getattr(self, several)
                and getattr(self, one) != type(self).model_fields[one].default
            ):
                raise ValueError(f"`{one}` and `{several}` are both given")
        for name, (start, end) in self.windows.items():
            if not 0 <= start < end:
                raise ValueError(f"windows.{name}: [{start:g}, {end:g}) is no window")
        if len(self.each_policy) < len(self.policies):
            raise ValueError("policies: names a policy twice with the same options")
        if self.a_a and self.load.is_open:
            raise ValueError("`a_a` is for closed loops")
        return self

    @property
    def is_grid(self) -> bool:
        """Whether it has several benchmarks or models (`tutti.tasks.sweeps.spec.grid`)."""
        return bool(self.benchmarks or self.models)

    @property
    def each_policy(self) -> dict[str, Policy]:
        """The policies with their options, by what tables call them. `cap` without a limit of its
        own takes the suite's."""
        every = [each if isinstance(each, Policy) else Policy(name=each) for each in self.policies]
        every = [
            each.model_copy(update={"limit": self.cap})
            if each.name == CAP and not each.options
            else each
            for each in every
        ]
        return dict(zip(labels_of(every), every, strict=True))

    @property
    def first_policy(self) -> str:
        """What tables call the first policy, to which a level's others are compared."""
        return next(iter(self.each_policy))

    @property
    def benchmark_name(self) -> str:
        """With its revision, without its trials: ``gsm8k``."""
        return self.benchmark.partition(":")[0]

    @property
    def samples_of_each(self) -> int:
        """Samples of each task in a cell."""
        return max(
            self.trials, 1 if self.benchmark == STDLIB else parse_benchmark(self.benchmark).trials
        )

    @field_validator("benchmark")
    @classmethod
    def _known_benchmark(cls, name: str) -> str:
        try:
            if name != STDLIB:
                benchmark_named(parse_benchmark(name).name)
        except BenchmarkError as error:
            raise ValueError(f"{error}, and stdlib") from None
        return name

    @field_validator("benchmarks")
    @classmethod
    def _known_benchmarks(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        plain = [name.partition(":")[0] for name in names]
        if len(set(plain)) < len(plain):
            raise ValueError("names a benchmark twice; its trials are one number")
        return tuple(cls._known_benchmark(name) for name in names)

    @field_validator("command", "mcp")
    @classmethod
    def _a_shell_line(cls, line: str | None) -> str | None:
        if line is not None:
            shlex.split(line)  # ValueError: No closing quotation
        return line

    @field_validator("schedule")
    @classmethod
    def _a_cron(cls, cron: str | None) -> str | None:
        if cron is not None:
            check_cron(cron)
        return cron

    @field_validator("benchmarks", "models")
    @classmethod
    def _each_once(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(values)) < len(values):
            raise ValueError("names a value twice")
        return values

    @field_validator("concurrency", "policies")
    @classmethod
    def _an_axis(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if not values or any(isinstance(value, int) and value < 1 for value in values):
            raise ValueError("needs at least one value, numbers 1 or more")
        if any(value in values[:place] for place, value in enumerate(values)):
            raise ValueError("names a value twice")
        return values


def read_suite(path: Path) -> Suite:
    """Read and validate a suite file. Raises SuiteError with file, line, field and value."""
    try:
        return read_document(path, SuiteError).check(Suite)
    except FileNotFoundError:
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml"))) or "none"
        raise SuiteError(f"{path}: no such suite; known there: {known}") from None


def with_fields(suite: Suite, given: Mapping[str, Any]) -> Suite:
    """The suite with the fields that are not None. Raises ValidationError."""
    chosen = {name: value for name, value in given.items() if value is not None}
    return Suite.model_validate(suite.model_dump() | chosen) if chosen else suite
