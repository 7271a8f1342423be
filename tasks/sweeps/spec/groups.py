"""The groups of a suite's fields, under its keys `data`, `roles`, `limits` and so on.

In: the part of a suite under one key. Out: a frozen model of it. `Suite` checks conditions between
groups.
"""

import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, FiniteFloat, field_validator, model_validator

from tutti.tasks.agents.models import AUTO, OFF, check_reasoning
from tutti.tasks.platform import Strict, read_document
from tutti.tasks.sweeps import GateError
from tutti.tasks.sweeps.spec.marks import (
    AXIS,
    CELL,
    DERIVED,
    INDEX,
    MODELS,
    POINT,
    RUN,
    SWEEP,
    TASKS,
    Group,
)

GateMetric = Literal[
    "score",
    "cost_usd",
    "working_s",
    "cost_per_solved",
    "infra_share",
    "steps_per_min",
    "step_latency_p95",
]


class Gate(Strict):
    """One condition: exactly one of `at_least`, `at_most` and `margin`."""

    metric: GateMetric = Field("score", description="what is judged; score is accuracy")
    at_least: float | None = Field(None, description="the interval must lie at or above it")
    at_most: float | None = Field(None, description="the interval must lie at or below it")
    margin: float | None = Field(
        None, ge=0, description="no worse than the baseline by more; a share unless of the score"
    )
    where: dict[Literal["benchmark", "model", "policy", "concurrency"], str | int] = Field(
        {}, description="only these set-ups, e.g. policy: adaptive"
    )

    @model_validator(mode="after")
    def _one_condition(self) -> "Gate":
        if [self.at_least, self.at_most, self.margin].count(None) != 2:
            raise ValueError("needs exactly one of at_least, at_most and margin")
        if self.margin is not None and self.metric in ("cost_per_solved", "infra_share"):
            raise ValueError(f"{self.metric} has no paired comparison: give it a bound")
        return self

    def __str__(self) -> str:
        bounds = {"at least": self.at_least, "at most": self.at_most}
        bounds["no worse than the baseline by"] = self.margin
        bound = next(f"{words} {value:g}" for words, value in bounds.items() if value is not None)
        where = "".join(f", {axis} {value}" for axis, value in self.where.items())
        return f"{self.metric} {bound}{where}"


class GateFile(Strict):
    """The keys of a gate file."""

    baseline: str | None = Field(None, description="a sweep's id or name that margins refer to")
    gates: tuple[Gate, ...] = Field(min_length=1)


def read_gates(path: Path) -> GateFile:
    """Read and validate a gate file. Raises GateError with file, line, field and value."""
    try:
        return read_document(path, GateError).check(GateFile)
    except FileNotFoundError:
        raise GateError(f"{path}: no such file") from None


class Budget(Strict):
    """The time and money that a run may spend. When it is spent, no more samples are started."""

    minutes: FiniteFloat | None = Field(None, gt=0, description="of the whole run")
    usd: FiniteFloat | None = Field(None, gt=0, description="of its attempts, judges and users")


class LatencyRule(Strict):
    """The step latency at which a cell is over-saturated and ends."""

    step_latency_p95: FiniteFloat = Field(gt=0, description="seconds that it surely exceeds")


class AccuracyRule(Strict):
    """The margin at which a cell's accuracy is decided and the cell ends."""

    margin: float = Field(0.05, ge=0, lt=1, description="within it two accuracies are the same")


class ParallelThinking(Strict):
    """Settings of several parallel solutions of each problem and one combined answer."""

    solutions: int = Field(ge=2, le=64, description="solutions of each problem")
    combine: Literal["select", "synthesis"] = Field(
        "select", description="pick one of the solutions, or write a new one from them"
    )
    most_chars: int = Field(
        16_384, ge=1, description="a longer solution is not shown to the combining call"
    )


class DataSelection(Group):
    """The measured tasks of a benchmark, their prompt, and how to read a file of the user's own."""

    source: Annotated[Path | None, TASKS] = Field(
        None, description="a file or folder with the data; default: download from the hub"
    )
    split: Annotated[str | None, TASKS] = Field(
        None, description="the split, if not the benchmark's own"
    )
    ids: Annotated[tuple[str, ...] | None, TASKS] = Field(None, description="only these tasks")
    where: Annotated[str | None, TASKS] = Field(
        None, description="SQL filter on the tasks' attributes: subject = 'x'"
    )
    prompt: Annotated[str | None, TASKS] = Field(
        None,
        description="a prompt of tutti's by its name, a .yaml file, or a template: '{question}'",
    )
    scorer: Annotated[
        Literal["exact", "numeric", "math", "choice", "judge", "none"] | None, TASKS
    ] = Field(
        None,
        description="of a .jsonl file, which needs it: how answers are compared; none: not at all",
    )
    question_field: Annotated[str | None, TASKS] = Field(
        None, description="of a .jsonl file; default: question, prompt or problem"
    )
    answer_field: Annotated[str | None, TASKS] = Field(
        None, description="of a .jsonl file; default: answer, target or expected_answer"
    )
    rule: Annotated[str | None, TASKS] = Field(
        None,
        description="how a public benchmark is scored, if not by its publisher's rule: strict …",
    )
    solo: Annotated[bool | None, TASKS] = Field(
        None,
        description="of a synthesized domain: no user is simulated, the prompt has the scenario",
    )


class RoleModels(Group):
    """Models besides the measured one. Each is an entry of models.yaml."""

    judge: Annotated[str | None, MODELS] = Field(None, description="the model that judges answers")
    user: Annotated[str | None, MODELS] = Field(
        None, description="the model that simulates the user"
    )
    agent: Annotated[str | None, MODELS] = Field(
        None,
        description="an orchestrator agent: a name in deployments/agents, or a .yaml file; "
        "default: the measured model works alone",
    )
    experts: Annotated[dict[str, str], MODELS] = Field(
        {}, description="replace models that the agent's file names: {name: model}"
    )
    search_url: Annotated[str | None, SWEEP] = Field(
        None, description="of a public benchmark: the retrieval service that the agent searches"
    )


class SamplingSettings(Group):
    """How the measured model generates a reply."""

    temperature: Annotated[float, SWEEP] = Field(0.0, ge=0.0, description="0 is greedy")
    max_tokens: Annotated[int | None, SWEEP] = Field(
        None,
        ge=1,
        description="of one reply; default: half of the model's context, at most 16384; of stdlib "
        "96",
    )
    reasoning: Annotated[str, SWEEP, AfterValidator(check_reasoning)] = Field(
        AUTO,
        description="what of a reply's text is its answer: auto (not a leading <think> … </think> "
        "or its like), off (all of it), or an end tag: what follows it",
    )

    @field_validator("reasoning", mode="before")
    @classmethod
    def _yaml_off(cls, value: Any) -> Any:
        return OFF if value is False else value  # YAML reads `off` as false

    @property
    def reply_tokens(self) -> int:
        """`max_tokens` of a planned suite, where it is always set."""
        assert self.max_tokens is not None, "a plan states the length of replies"
        return self.max_tokens


class SuiteLimits(Group):
    """Limits of the time of attempts and cells, and of an attempt's cost."""

    max_turns: Annotated[int, SWEEP] = Field(8, ge=1, description="calls of one attempt")
    working_s: Annotated[float, SWEEP] = Field(
        120.0, gt=0, description="seconds of one attempt, without waiting for endpoints"
    )
    attempt_usd: Annotated[float | None, SWEEP] = Field(
        None, gt=0, description="cost of one attempt's calls and tools"
    )
    command_s: Annotated[float, SWEEP] = Field(
        600.0, gt=0, description="working seconds of one run of `harness.command`"
    )
    max_cell_s: Annotated[float | None, CELL] = Field(
        None, gt=0, description="seconds of a cell; it ends with the samples it has"
    )
    max_attempts: Annotated[int, RUN] = Field(
        3, ge=1, description="attempts at a sample that ends with an infra_error"
    )


class Repetition(Group):
    """Numbers of repetitions of tasks and cells."""

    repeats: Annotated[int, AXIS] = Field(
        1, ge=1, description="times each cell is run, each with another seed"
    )
    repeat_baseline: Annotated[bool, AXIS] = Field(
        False, description="A/A: repeat the first policy with the same seeds, to measure noise"
    )
    trials: Annotated[int, DERIVED] = Field(1, ge=1, description="samples of each task in a cell")
    first_trial: Annotated[int, SWEEP] = Field(
        0, ge=0, description="number of the first sample of each task; seeds are made of it"
    )
    min_samples_per_session: Annotated[int, POINT] = Field(
        0, ge=0, description="minimum samples per session; trials are added to reach it"
    )


class StoppingRules(Group):
    """When a cell ends before all its samples are measured."""

    saturation: Annotated[LatencyRule | None, RUN] = Field(
        None, description="end a cell whose step latency exceeds this limit"
    )
    stop_when_decided: Annotated[AccuracyRule | None, RUN] = Field(
        None, description="end a cell whose accuracy, against the first of its level, is decided"
    )


class ExecutionSettings(Group):
    """The engines of the measured model, and the order of the cells."""

    engines: Annotated[int, CELL] = Field(1, ge=1, description="per model, behind one gateway")
    order: Annotated[Literal["abba", "random"], RUN] = Field(
        "abba", description="of the policies at a level: alternating, or drawn anew each time"
    )
    interleave: Annotated[bool, RUN] = Field(
        False,
        description="of several models: measure them level by level, with all engines running, "
        "instead of one model after another",
    )
    restarts: Annotated[int, RUN] = Field(
        1, ge=0, le=20, description="how often engines that died in a cell are started again"
    )
    restart_pause_s: Annotated[float, RUN] = Field(
        5.0, ge=0, le=3600, description="wait so long before"
    )


class HarnessSettings(Group):
    """The program that runs an attempt, and its tools."""

    command: Annotated[str | None, SWEEP] = Field(
        None, description="of a public benchmark: a harness to run for each sample, as a shell line"
    )
    mcp: Annotated[str | None, SWEEP] = Field(
        None, description="of a public benchmark: an MCP server (URL or shell line) as its tools"
    )
    search_index: Annotated[str | None, INDEX] = Field(
        None,
        description="of a benchmark: an index that its agent searches, by id or folder "
        "(`tutti index FOLDER`)",
    )
    python: Annotated[Literal["once", "session"] | None, SWEEP] = Field(
        None,
        description="offer the tool python, in the sandbox: once runs each program alone, session "
        "keeps an attempt's variables; default: of stdlib once, else no such tool",
    )
    parallel: Annotated[ParallelThinking | None, SWEEP] = Field(
        None,
        title="Parallel thinking",
        description="of questions: several solutions at once, then one answer made of them",
    )
    unsafe_sandbox: Annotated[bool, RUN] = Field(
        False,
        description="run model-written programs unsandboxed if this machine has no sandbox: "
        "they can read what you can",
    )

    @field_validator("command", "mcp")
    @classmethod
    def _a_shell_line(cls, line: str | None) -> str | None:
        if line is not None:
            shlex.split(line)  # ValueError: No closing quotation
        return line


class ReportSettings(Group):
    """The baseline of the results, and the parts of them that are named."""

    windows: Annotated[dict[str, tuple[float, float]], RUN] = Field(
        {}, description="named windows of each cell, [start, end) in seconds, for SQL"
    )
    gates: Annotated[tuple[Gate, ...], RUN] = Field(
        (), description="conditions that `tutti gate` and nights check"
    )
    baseline: Annotated[str | None, RUN] = Field(
        None, description="the sweep that the gates' margins refer to"
    )

    @field_validator("windows")
    @classmethod
    def _windows_have_a_length(
        cls, windows: dict[str, tuple[float, float]]
    ) -> dict[str, tuple[float, float]]:
        for name, (start, end) in windows.items():
            if not 0 <= start < end:
                raise ValueError(f"{name}: [{start:g}, {end:g}) is no window")
        return windows
