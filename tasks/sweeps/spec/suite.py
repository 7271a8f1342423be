"""Suite files, which define a measurement. One frozen model has the file's keys, the flow's
parameters and the command line's flags."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from cronsim import CronSim, CronSimError
from pydantic import (
    AfterValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from tutti.tasks.agents.commands import shipped_harness
from tutti.tasks.benchmarks import BenchmarkError, parse_benchmark
from tutti.tasks.benchmarks.own import generated_name
from tutti.tasks.platform import Strict, read_document
from tutti.tasks.scoring import UNSCORED
from tutti.tasks.serving.scheduling import DEFAULT_CAP
from tutti.tasks.sweeps import SuiteError as SuiteError
from tutti.tasks.sweeps.spec.groups import (
    Budget,
    DataSelection,
    ExecutionSettings,
    HarnessSettings,
    Repetition,
    ReportSettings,
    RoleModels,
    SamplingSettings,
    StoppingRules,
    SuiteLimits,
)
from tutti.tasks.sweeps.spec.load import Load
from tutti.tasks.sweeps.spec.marks import (
    AXIS,
    CELL,
    DERIVED,
    MODELS,
    RUN,
    TASKS,
    places_of,
    value_at,
    without_groups,
)
from tutti.tasks.sweeps.spec.own import (
    DOMAIN_FIELDS,
    JSONL_FIELDS,
    RULE_FIELDS,
    check_parallel,
    check_reading,
    has_rule,
    is_domain,
    is_jsonl,
    is_made,
    known_name,
    open_named,
    own_command,
    registered,
    stored_name,
)
from tutti.tasks.sweeps.spec.policy import CAP, GivenPolicy, Policy, labels_of
from tutti.tasks.synthesis import TaskRequest


def check_cron(cron: str | None) -> str | None:
    """Return a cron of five fields. Raises ValueError for another string, and for a cron that plans
    two nights on one date."""
    if cron is None:
        return None
    if len(cron.split()) != 5:
        raise ValueError("needs five fields: minute, hour, day, month, weekday")
    try:
        times = CronSim(cron, datetime(2024, 1, 1))
        first = [next(times) for _ in range(8)]
    except (CronSimError, StopIteration) as error:
        raise ValueError(f"not a schedule: {error}") from None
    if len({each.date() for each in first}) < len(first):
        raise ValueError("plans two nights on one date; a night is named by its date")
    return cron


PUBLIC_ONLY = (
    *("source", "limit", "ids", "where", "prompt", *JSONL_FIELDS, *DOMAIN_FIELDS, *RULE_FIELDS),
    *("command", "mcp", "search_index", "judge", "user", "search_url"),
)
"""Fields that a benchmark whose tasks are made has no use for."""

FORMER_TOKENS = 96
"""The default of `max_tokens` until it followed the context: what states it keeps its id."""
MOST_TOKENS = 16_384
"""More is refused by some providers, and a suite whose model needs more states it."""


class Suite(Strict):
    """A grid of cells: benchmark x model x policy x concurrency x repeat."""

    name: Annotated[str, DERIVED] = Field(
        "demo", pattern=r"^[a-z0-9][a-z0-9-]*$", description="the sweep's name"
    )
    benchmark: Annotated[str, DERIVED] = Field(
        "stdlib",
        description="stdlib, a public benchmark (gsm8k, aime-25:16, name@revision), or a .jsonl "
        "or .py file, relative to the suite file",
    )
    benchmarks: Annotated[tuple[str, ...], AXIS] = Field(
        (), description="several in place of `benchmark`; `data.source` has a folder for each"
    )
    model: Annotated[str, MODELS] = Field("pocket", description="a model of models.yaml")
    models: Annotated[tuple[str, ...], AXIS] = Field(
        (), description="several in place of `model`, one after another"
    )
    concurrency: Annotated[tuple[int, ...], AXIS] = Field(
        (2, 8, 16), description="sessions at once, one cell for each"
    )
    policies: Annotated[tuple[GivenPolicy, ...], AXIS] = Field(
        ("passthrough", "cap"),
        description="the gateway's scheduling rules to compare: adaptive, {name: cap, limit: 8}",
    )
    limit: Annotated[int | None, TASKS] = Field(
        None, ge=1, description="of a public benchmark: only the first N tasks"
    )
    tasks: Annotated[TaskRequest, TASKS] = Field(
        default_factory=lambda: TaskRequest(),
        title="Tasks",
        description="of stdlib: the task set; `data.split` of it is run, default: test",
    )
    data: DataSelection = Field(
        DataSelection(),
        title="Data",
        description="of a benchmark: its data, the tasks to measure and their prompt",
    )
    roles: RoleModels = Field(
        RoleModels(),
        title="Roles",
        description="other models: judge, simulated user, an agent and its experts",
    )
    sampling: SamplingSettings = Field(
        SamplingSettings(), title="Sampling", description="temperature and length of replies"
    )
    limits: SuiteLimits = Field(
        SuiteLimits(), title="Limits", description="turns, time and cost of attempts and cells"
    )
    repetition: Repetition = Field(
        Repetition(), title="Repetition", description="repeats of cells and trials of tasks"
    )
    stopping: StoppingRules = Field(
        StoppingRules(), title="Stopping", description="when a cell ends early"
    )
    load: Annotated[Load, CELL] = Field(Load(), title="Load", description="how sessions start")
    budget: Annotated[Budget, RUN] = Field(
        Budget(),
        title="Budget",
        description="time and money of a run; when it is spent, run again to resume",
    )
    execution: ExecutionSettings = Field(
        ExecutionSettings(), title="Execution", description="engines, and the order of the cells"
    )
    harness: HarnessSettings = Field(
        HarnessSettings(), title="Harness", description="what runs an attempt, and its tools"
    )
    report: ReportSettings = Field(
        ReportSettings(), title="Report", description="gates, their baseline, named windows"
    )
    schedule: Annotated[str | None, RUN, AfterValidator(check_cron)] = Field(
        None, description="cron of the deployment nightly, in UTC"
    )

    @model_validator(mode="before")
    @classmethod
    def _fields_are_in_their_groups(cls, given: Any) -> Any:
        wrong = [
            InitErrorDetails(
                type=PydanticCustomError("place", "write `{place}`", {"place": ".".join(place)}),
                loc=(name,),
                input=value,
            )
            for name, value in (given.items() if isinstance(given, Mapping) else ())
            if len(place := PLACES.get(name, ())) > 1
        ]
        if wrong:
            raise ValidationError.from_exception_data(cls.__name__, wrong)
        return given

    @model_validator(mode="after")
    def _fields_agree(self) -> "Suite":
        roles, harness = self.roles, self.harness
        for name in ("experts", "search_url") if roles.agent is None else ():
            if getattr(roles, name):
                raise ValueError(f"`roles.{name}` is for an agent: name it with `roles.agent`")
        if harness.python is not None and (self.command or roles.agent is not None):
            raise ValueError(
                "`harness.python` is for the measured model alone: no `harness.command`, no "
                "`roles.agent`"
            )
        if harness.parallel is not None:
            check_parallel(self.benchmark, harness, roles.agent, self.sampling.temperature)
        other = harness.command is not None and shipped_harness(harness.command) is None
        if roles.agent is not None and (other or harness.mcp is not None):
            raise ValueError(
                "`roles.agent` is tutti's own: it takes no `command` of another program, and no "
                "`mcp`"
            )
        if self.stopping.saturation is not None and self.command is not None:
            raise ValueError(
                "`stopping.saturation` measures the steps of tutti's agent; a harness has its own"
            )
        made, searches = [*filter(is_made, self.benchmarks)], roles.search_url is not None
        if harness.search_index is not None and (self.command or made or searches):
            raise ValueError(
                "`harness.search_index` is for tutti's agent, without `harness.command` and "
                "`roles.search_url`; stdlib has its own index"
            )
        if self.benchmarks:
            return self  # each part is looked at by itself
        if self.request is not None:
            if given := [name for name in PUBLIC_ONLY if self.value_of(name) is not None]:
                fields = ", ".join(".".join(PLACES[name]) for name in given)
                raise ValueError(f"{self.benchmark} has no {fields}; its tasks say what is made")
            if self.data.split not in (None, "train", "test"):
                raise ValueError(f"data.split: {self.data.split!r} must be train or test")
            return self
        check_reading(self.benchmark, self.data)
        if parse_benchmark(self.benchmark).trials > 1 and self.repetition.trials > 1:
            raise ValueError("trials are given twice, by `benchmark` and by `repetition.trials`")
        return self

    @model_validator(mode="after")
    def _axes_agree(self) -> "Suite":
        for one, several in (("benchmark", "benchmarks"), ("model", "models")):
            is_given = getattr(self, one) != type(self).model_fields[one].default
            if getattr(self, several) and is_given:
                raise ValueError(f"`{one}` and `{several}` are both given")
        if len(self.each_policy) < len(self.policies):
            raise ValueError("policies: names a policy twice with the same options")
        if self.repetition.repeat_baseline and self.load.is_open:
            raise ValueError("`repetition.repeat_baseline` is for closed loops")
        return self

    @property
    def is_grid(self) -> bool:
        """Whether it has several benchmarks or models."""
        return bool(self.benchmarks or self.models)

    @property
    def command(self) -> str | None:
        """The harness that makes the attempts: `harness.command`, or the one that tutti ships for
        the benchmark; None if tutti's agent makes them."""
        return self.harness.command or own_command(self.benchmark)

    @property
    def each_policy(self) -> dict[str, Policy]:
        """The policies with their options, by label."""
        every = [each if isinstance(each, Policy) else Policy(name=each) for each in self.policies]
        every = [
            each.model_copy(update={"limit": DEFAULT_CAP})
            if each.name == CAP and not each.options
            else each
            for each in every
        ]
        return dict(zip(labels_of(every), every, strict=True))

    @property
    def first_policy(self) -> str:
        """The label of the first policy, with which the others of a level are compared."""
        return next(iter(self.each_policy))

    @property
    def benchmark_name(self) -> str:
        """The benchmark with its revision, without its trials: ``gsm8k``; for a file its name."""
        name = stored_name(self.benchmark)
        return generated_name(name) if self.data.scorer == UNSCORED.name else name

    @property
    def request(self) -> TaskRequest | None:
        """The request for its generated tasks; None if they are read."""
        return self.tasks if is_made(self.benchmark) else None

    @property
    def samples_of_each(self) -> int:
        """Number of samples of each task in a cell."""
        return max(self.repetition.trials, parse_benchmark(self.benchmark).trials)

    def value_of(self, name: str) -> Any:
        """Return the value of a field in any group."""
        return value_at(self, PLACES[name])

    def given_fields(self) -> dict[str, Any]:
        """The fields that differ from their defaults, as JSON, by their own names."""
        return without_groups(Suite, self.model_dump(mode="json", exclude_defaults=True))

    def with_fields(self, given: Mapping[str, Any]) -> "Suite":
        """Return the suite with the fields that are not None, named without their groups.

        Raises ValidationError.
        """
        chosen = {name: value for name, value in given.items() if value is not None}
        return self.with_values(chosen) if chosen else self

    def with_values(self, given: Mapping[str, Any]) -> "Suite":
        """Return the suite with these values, including None, of fields named without their groups.

        Raises ValidationError.
        """
        content = self.model_dump()
        for name, value in given.items():
            *group, _ = PLACES.get(name, (name,))
            inside = content[group[0]] if group else content
            inside[name] = value
        return Suite.model_validate(content)

    def reply_tokens(self, context_tokens: int | None) -> int:
        """The most tokens of one reply; `context_tokens` are the model's, None if it has no entry.

        Until 2026-11 it was 96 for every benchmark, which truncated the replies of most models.
        """
        if self.sampling.max_tokens is not None:
            return self.sampling.max_tokens
        entry = registered(self.benchmark)
        if entry is not None and entry.reply_tokens is not None:
            return entry.reply_tokens
        if context_tokens is None:
            return FORMER_TOKENS
        # Half of the context, so that prompts have the other half.
        return max(1, min(MOST_TOKENS, context_tokens // 2))

    def with_reply_tokens(self, context_tokens: int | None) -> "Suite":
        """Return the suite with an explicit length of replies."""
        if self.sampling.max_tokens is not None:
            return self
        stated = {"max_tokens": self.reply_tokens(context_tokens)}
        return self.model_copy(update={"sampling": self.sampling.model_copy(update=stated)})

    def parts(self) -> "tuple[Suite, ...]":
        """Return one suite for each model and benchmark, in measuring order: model by model.

        Fields that a part's benchmark does not use are dropped: a limit of stdlib, a judge that no
        scorer uses, a user without dialogues. Raises SuiteError if no part uses them.
        """
        if not self.is_grid:
            return (self,)
        models = self.models or (self.model,)
        benchmarks = self.benchmarks or (self.benchmark,)
        found = tuple(_part(self, model, each) for model in models for each in benchmarks)
        for name in PUBLIC_ONLY:
            given = self.value_of(name) is not None
            if given and all(each.value_of(name) is None for each in found):
                place, every = ".".join(PLACES[name]), ", ".join(benchmarks)
                raise SuiteError(f"{place}: none of {every} has a use for it")
        return found

    @field_validator("benchmark")
    @classmethod
    def _known_benchmark(cls, name: str, info: ValidationInfo) -> str:
        try:
            folder = (info.context or {}).get("folder")
            return known_name(name, folder)
        except BenchmarkError as error:
            raise ValueError(str(error)) from None

    @field_validator("benchmarks")
    @classmethod
    def _known_benchmarks(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        known = tuple(cls._known_benchmark(name, info) for name in names)
        if len(set(map(stored_name, known))) < len(known):
            raise ValueError("names a benchmark twice; its trials are one number")
        return known

    @field_validator("benchmarks", "models", "concurrency", "policies")
    @classmethod
    def _an_axis(cls, values: tuple[Any, ...], info: ValidationInfo) -> tuple[Any, ...]:
        needed = info.field_name in ("concurrency", "policies")
        if (needed and not values) or any(isinstance(each, int) and each < 1 for each in values):
            raise ValueError("needs at least one value, numbers 1 or more")
        if any(value in values[:place] for place, value in enumerate(values)):
            raise ValueError("names a value twice")
        return values


PLACES = places_of(Suite)
"""Where each field stands: its name, or its group and its name."""


def read_suite(path: Path) -> Suite:
    """Read and validate a suite file.

    Raises SuiteError with file, line, field and value.
    """
    try:
        document = read_document(path, SuiteError)
    except FileNotFoundError:
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml"))) or "none"
        raise SuiteError(f"{path}: no such suite; known there: {known}") from None
    return document.check(Suite, {"folder": path.parent})


def _part(suite: Suite, model: str, benchmark: str) -> Suite:
    change: dict[str, Any] = {"model": model, "models": (), "benchmark": benchmark}
    change["benchmarks"] = ()
    if is_made(benchmark):
        change |= dict.fromkeys(PUBLIC_ONLY)
    else:
        if is_jsonl(benchmark):
            change["source"] = None
        else:
            change |= dict.fromkeys(JSONL_FIELDS)
            if suite.data.source is not None:
                change["source"] = _source(suite.data.source, benchmark)
        data = suite.data
        if data.rule is not None and not has_rule(benchmark, data.rule):
            change["rule"] = None
            data = data.model_copy(update={"rule": None})
        if not is_domain(benchmark):
            change |= dict.fromkeys(DOMAIN_FIELDS)
        known = open_named(benchmark, data)
        if known.scoring.needs != "judge" and (known.command is None or not known.needs_user):
            change["judge"] = None
        other = suite.harness.command is not None and known.command is None
        if not known.needs_user or other:
            change["user"] = None
        if known.command is not None:  # its agent is another program's
            change["python"] = None
    return suite.with_values(change)


def _source(source: Path, benchmark: str) -> Path:
    """Return the data of one of several benchmarks: its own folder in `source`; otherwise `source`,
    if that is the checkout that it shares with others."""
    folder = source / stored_name(benchmark).partition("@")[0]
    return source if own_command(benchmark) is not None and not folder.is_dir() else folder
