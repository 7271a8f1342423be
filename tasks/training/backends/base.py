"""The parts that backends share: the plan of a job, and generating and checking settings.

A backend trains on a fixed set (`SetBackend`), or a policy on its own attempts (`PolicyBackend`). A
field of a job that a backend cannot follow is refused, not ignored. The settings of a job are a
template in `settings/`: each line is a dotted name and a value in JSON.
"""

import difflib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow.parquet as pq
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tutti.errors import UsageError
from tutti.tasks.benchmarks import Benchmark
from tutti.tasks.platform import PACKAGE
from tutti.tasks.scoring import Scorer
from tutti.tasks.sweeps.plan import TaskSet
from tutti.tasks.sweeps.spec import Suite
from tutti.tasks.task_sets import Task
from tutti.tasks.training.jobs.job import TrainJob
from tutti.tasks.training.jobs.settings import steps_of
from tutti.tasks.training.objectives import Clipping, settings_with
from tutti.tasks.training.policy.job import PolicyJob
from tutti.tasks.training.sets.frozen import TrainingSet

KEYS = Path(__file__).parent / "keys"
"""Names of each backend's settings, taken from the backend; the first line says which version."""
LAUNCHER = PACKAGE / "tasks" / "training" / "launch.py"
BESIDE = "tutti.tasks.training.trainer.beside"
OUTPUT = "output"
TEMPLATE_TOKENS = 64
"""Most tokens that a chat template adds to a message, with room for its opening."""


class BackendRefused(UsageError):
    """A job that a backend cannot train as it is; the message names the field."""


class _Plan:
    """The parts of a plan that do not depend on its kind."""

    job: TrainJob | PolicyJob
    folder: Path

    @property
    def steps(self) -> int:
        """Number of training steps."""
        return self.job.steps or 0

    @property
    def output(self) -> Path:
        """The folder of the backend's results."""
        return self.folder / OUTPUT

    @property
    def warmup_steps(self) -> int:
        """Number of steps in which the learning rate rises."""
        return round(self.steps * self.job.optimizer.warmup_share)

    @property
    def is_half(self) -> bool:
        """Whether the backend calculates in bfloat16."""
        return self.job.dtype != "float32"

    @property
    def dtype(self) -> str:
        """The type of the arithmetic."""
        return "bfloat16" if self.is_half else "float32"


@dataclass(frozen=True)
class BackendJob(_Plan):
    """A job for a backend, and the folder for its configuration."""

    job: TrainJob
    base: Path
    training_set: TrainingSet
    folder: Path
    on_cpu: bool = False
    """Whether it is launched on this machine, without a GPU."""

    @property
    def steps(self) -> int:
        """Steps until the job's epochs or steps are reached, whichever is first."""
        job, file = self.job, self.training_set.rows
        if file.suffix == ".parquet":
            rows = pq.read_metadata(file).num_rows
        else:
            rows = file.read_bytes().count(b"\n")
        steps = steps_of(rows, job.batch.sequences, job.passes, job.steps)
        assert steps is not None, f"minutes are refused, and it ends by nothing else: {job}"
        return steps

    @property
    def max_tokens(self) -> int:
        """Tokens of the longest sequence: the job's limit, or the base's."""
        if self.job.batch.max_tokens is not None:
            return self.job.batch.max_tokens
        config = json.loads((self.base / "config.json").read_text())
        return int(config.get("max_position_embeddings") or 2048)

    def tokenise_command(self, form: str) -> list[str]:
        """The arguments, after a Python, that write the set's ids; `form` names their columns."""
        command = ["-P", str(LAUNCHER), BESIDE, "tokenise"]
        command += ["--base", str(self.base), "--form", form]
        command += ["--rows", str(self.training_set.rows), "--out", str(self.folder / "tokens")]
        longest = self.job.batch.max_tokens
        return command + (["--max-tokens", str(longest)] if longest else [])


@dataclass(frozen=True)
class PolicyPlan(_Plan):
    """A policy job for a backend, its tasks, and the folder for its configuration."""

    job: PolicyJob
    base: Path
    context_tokens: int
    """Of prompt and answer together, as the base's entry of models.yaml says."""
    train: TaskSet
    held_out: TaskSet
    folder: Path

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All tasks, for training and held out."""
        return (*self.train.tasks, *self.held_out.tasks)

    @property
    def held_out_suite(self) -> Suite:
        """The suite of the held-out tasks."""
        return self.job.evaluation.suite or self.job.suite

    @property
    def clip(self) -> Clipping:
        """The objective's published settings, overridden by the job's."""
        clip = settings_with(self.job.objective, self.job.objective_settings)
        assert isinstance(clip, Clipping), f"{self.job.objective} has no clipping"
        return clip

    @property
    def answer_tokens(self) -> int:
        """Most tokens of an answer."""
        return self.job.suite.reply_tokens(self.context_tokens)

    @property
    def held_out_tokens(self) -> int:
        """Most tokens of an answer to a held-out task."""
        return self.held_out_suite.reply_tokens(self.context_tokens)

    @property
    def prompt_tokens(self) -> int:
        """Upper bound of the longest prompt: with any tokenizer, a token is at least a byte."""
        longest = max(
            sum(len(str(each["content"]).encode()) + TEMPLATE_TOKENS for each in task.messages)
            for task in self.tasks
        )
        return max(1, min(longest, self.context_tokens - self.answer_tokens))

    @property
    def gpus(self) -> int:
        """Number of GPUs in the job; 1 by default."""
        gpus = self.job.gpus
        return len(gpus) if isinstance(gpus, tuple) else gpus or 1


Planned = TypeVar("Planned", BackendJob, PolicyPlan)
TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "settings"),
    undefined=StrictUndefined,
    trim_blocks=True,
    keep_trailing_newline=True,
    finalize=partial(json.dumps, default=str),
)


@dataclass(frozen=True, kw_only=True)
class Backend(Generic[Planned]):
    """A trainer of another project, for fixed sets or policies."""

    name: str
    schema: str
    """The name of its schema: in `CHECKS`, `keys/` and `settings/`."""
    config_file: str
    """The file, in the folder, that its own schema checks."""
    write: Callable[[Planned, Mapping[str, Any]], tuple[str, str]]
    """(text of its configuration's file, lines of `launch.sh`) for nested settings."""
    refuse: Callable[[Planned], list[str]] = lambda plan: []
    """What it cannot do of a job, each with its field."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    read_steps: Callable[[Path], list[dict[str, Any]]] = lambda folder: []
    """Its log in the folder, as rows in the names of `train_steps`."""
    data_format: str | None = None
    """The export that it reads; None where it is given ids."""
    runs_here: bool = False
    """Whether tutti launches it itself, in its environment on this machine."""
    write_data: Callable[[Planned, Path], None] = lambda plan, folder: None
    """Writes the tasks of a policy job and the reward function into a folder."""
    differences: Callable[[Planned], list[str]] = lambda plan: []
    """What it does otherwise than tutti, and a job cannot change."""

    def configuration(self, plan: Planned) -> dict[str, Any]:
        """Return its settings for a job, by dotted name."""
        context = {"plan": plan, "job": plan.job, "optimizer": plan.job.optimizer}
        text = TEMPLATES.get_template(f"{self.schema}.jinja").render(context, **self.constants)
        pairs = (line.split(" = ", 1) for line in text.splitlines() if line)
        return {name: json.loads(value) for name, value in pairs}

    def settings(self, plan: Planned) -> dict[str, Any]:
        """Return nested settings of the job, overridden by `backend_settings`."""
        nested: dict[str, Any] = {}
        for name, value in (*flat(self.configuration(plan)), *flat(plan.job.backend_settings)):
            *path, last = name.split(".")
            inner = nested
            for each in path:
                inner = inner.setdefault(each, {})
            inner[last] = value
        return nested


SetBackend = Backend[BackendJob]
PolicyBackend = Backend[PolicyPlan]


def check_names(backend: Backend[Any], settings: Mapping[str, Any]) -> None:
    """Raise BackendRefused for a setting that is not in the backend's list of names."""
    version, known = known_names(backend.schema)
    opened = tuple(each[:-1] for each in known if each.endswith(".*"))
    for name, value in flat(settings):
        is_table = value == {} and any(each.startswith(f"{name}.") for each in known)
        if name in known or is_table or f"{name}.".startswith(opened):
            continue
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BackendRefused(
            f"backend_settings.{name}: {backend.name} has no such setting{hint} "
            f"(names of {version})"
        )


def known_names(backend: str) -> tuple[str, list[str]]:
    """(version, names) of a backend's settings; a name ending in ``.*`` covers any below it."""
    first, *names = (KEYS / f"{backend}.txt").read_text().splitlines()
    return first.removeprefix("# "), names


def flat(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each setting with its dotted name; names may be dotted, and values nested."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def overrides(settings: Mapping[str, Any], prefix: str = "") -> str:
    """Return settings as Hydra's overrides, one per line."""
    return "".join(f"{prefix}{name}={json.dumps(value)}\n" for name, value in flat(settings))


def json_lines(file: Path) -> list[dict[str, Any]]:
    """Return the JSON objects of a log, without an incomplete last line."""
    rows: list[dict[str, Any]] = []
    for line in file.read_text(errors="replace").splitlines() if file.is_file() else ():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break  # still being written
    return rows


def named(row: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the figures of a row under our names, {ours: theirs}, without missing ones."""
    figures = {ours: row[theirs] for ours, theirs in names.items() if row.get(theirs) is not None}
    return figures | ({"tokens": int(figures["tokens"])} if "tokens" in figures else {})


SCORERS = ("exact", "numeric", "math", "choice")
"""They need an answer and a target only."""
REWARDS = {
    "coalesce(score, 0)": "score",
    "score": "score",
    "if(coalesce(score, 0) = 1, 1, -1)": "1.0 if score == 1 else -1.0",
}
"""`reward.sql` that a file of Python can say: the expression of `score` that it writes."""
COLUMNS = "columns of `counted` are tutti's; a reward is the score"
NOT_CARRIED = {
    "self_play": "the other side is played by no other trainer",
    "minutes": "it ends by `steps`",
    "wall_time_minutes": "it ends by `steps`",
    "rollouts.late_factor": "it waits for every attempt",
    "reward.process": "picks of turns are made by tutti",
    "reward.preference": COLUMNS,
    "reward.parts": COLUMNS,
    "reward.permuted": "a control of tutti's own",
    "reward.least_deviation": "groups are left out by tutti; give 0",
}
"""Fields of a policy job that no other trainer has, and why; they must be empty."""
NOT_CARRIED_OF_SUITES = {
    "benchmarks": "name one, as `benchmark`",
    **dict.fromkeys(
        [f"harness.{name}" for name in ("command", "mcp", "search_index", "python", "parallel")],
        "attempts are made by tutti",
    ),
    **dict.fromkeys(
        [f"roles.{name}" for name in ("judge", "user", "agent", "experts", "search_url")],
        "other models and tools are called by tutti",
    ),
}


def written(job: PolicyJob, name: str) -> str:
    """Return a file of `written/`, with the reward of a job that `not_carried` accepts."""
    text = (Path(__file__).parent / "written" / name).read_text()
    return text.replace("REWARD_OF_SCORE", REWARDS[" ".join(job.reward.sql.split())])


def not_carried(job: PolicyJob) -> Iterator[str]:
    """Yield the settings that no other trainer supports, each with its field."""
    for where, suite in (("suite", job.suite), ("evaluation.suite", job.evaluation.suite)):
        if suite is None:
            continue
        if suite.request is not None:
            yield f"{where}.benchmark: {suite.benchmark} needs tutti's tools search and python"
        if suite.harness.command is None and not suite.benchmarks and suite.command is not None:
            yield f"{where}.benchmark: attempts at {suite.benchmark} are made by {suite.command}"
        yield from _filled(suite, NOT_CARRIED_OF_SUITES, f"{where}.")
    yield from _filled(job, NOT_CARRIED)
    if " ".join(job.reward.sql.split()) not in REWARDS:
        known = " or ".join(map(repr, REWARDS))
        yield f"reward.sql: {job.reward.sql!r} is SQL over tutti's store; only {known} is carried"
    if job.by_turns and job.reward.process is None:
        yield f"objective: {job.objective} gives each turn an advantage; these are one answer"


def _filled(model: Any, fields: Mapping[str, str], before: str = "") -> Iterator[str]:
    return (f"{before}{name}: {why}" for name, why in fields.items() if attrgetter(name)(model))


def not_carried_of(tasks: TaskSet, where: str) -> Iterator[str]:
    """Yield why tasks cannot be carried, each with their number."""
    reasons = Counter(_reason(tasks.benchmark, each) for each in tasks.tasks)
    yield from (f"{where}: {count} tasks {reason}" for reason, count in reasons.items() if reason)


def _reason(benchmark: Benchmark, task: Task) -> str:
    if benchmark.world is not None:
        return "act in a world, which tutti runs"
    if benchmark.platform_tools or benchmark.search_index is not None or task.tools:
        return "have tools, which tutti runs"
    if benchmark.own_scorer is not None:
        return "have a scorer of their own"
    if benchmark.scorer not in SCORERS:
        return f"are scored by {benchmark.scorer}; carried are {', '.join(SCORERS)}"
    if not all(isinstance(each.get("content"), str) for each in task.messages):
        return "have prompts that are not text"
    return ""


def truth_of(scorer: Scorer, task: Task) -> str:
    """Return a task's scorer and target, as JSON for the reward function."""
    return json.dumps(
        {"scorer": scorer.name, "version": scorer.version, "target": dict(task.target)}
    )


def with_tutti(launch: str) -> str:
    """`launch.sh` with lines that add tutti's sources first; the reward calls their scorers."""
    return (
        f'export PYTHONPATH="${{TUTTI:-{PACKAGE.parent}}}${{PYTHONPATH:+:$PYTHONPATH}}"\n'
        "export HF_HUB_OFFLINE=1\n" + launch
    )
