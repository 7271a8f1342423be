"""What every backend has, and what its configuration is made from.

Settings of a job that no backend reads are refused, not ignored; those of some backends only are
refused by these. A backend trains on a fixed set (`Backend`), or a policy on its own attempts
(`PolicyBackend`).

Of a policy job, what another trainer cannot be told is refused. Tasks are carried where an attempt
is one answer that one of our pure scorers reads.
"""

import difflib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow.parquet as pq

from tutti.errors import UsageError
from tutti.tasks.benchmarks import Benchmark
from tutti.tasks.project import PACKAGE
from tutti.tasks.scoring import Scorer
from tutti.tasks.sweeps.plan import TaskSet
from tutti.tasks.sweeps.spec import Suite
from tutti.tasks.task_sets import Task
from tutti.tasks.training.job import TrainJob
from tutti.tasks.training.objectives import Clipping, settings_with
from tutti.tasks.training.policy.job import PolicyJob
from tutti.tasks.training.sets.frozen import TrainingSet
from tutti.tasks.training.settings import steps_of

KEYS = Path(__file__).parent / "keys"
"""Names of each backend's settings, taken from the backend; the first line says which version."""
LAUNCHER = PACKAGE / "tasks" / "training" / "launch.py"
TOKENISE = "tutti.tasks.training.trainer.tokenise"
OUTPUT = "output"
TEMPLATE_TOKENS = 64
"""Most tokens that a chat template adds to a message, with room for its opening."""


class BackendRefused(UsageError):
    """A job cannot be trained by a backend as it is; the message names the field."""


@dataclass(frozen=True)
class BackendJob:
    """A job for a backend, and the folder that its configuration is written to."""

    job: TrainJob
    base: Path
    training_set: TrainingSet
    folder: Path
    on_cpu: bool = False
    """Whether it is launched on this machine, without a GPU."""

    @property
    def rows(self) -> int:
        """Rows that are trained on."""
        file = self.training_set.rows
        if file.suffix == ".parquet":
            return int(pq.read_metadata(file).num_rows)
        with file.open(encoding="utf-8") as lines:
            return sum(1 for _ in lines)

    @property
    def steps(self) -> int:
        """Steps until the job's epochs or steps are over, whichever is first."""
        job = self.job
        steps = steps_of(self.rows, job.batch.sequences, job.passes, job.steps)
        assert steps is not None, f"minutes are refused, and it ends by nothing else: {job}"
        return steps

    @property
    def warmup_steps(self) -> int:
        """Steps in which the learning rate rises."""
        return round(self.steps * self.job.optimizer.warmup_share)

    @property
    def max_tokens(self) -> int:
        """Tokens of the longest sequence: the job's, or what the base reads."""
        if self.job.batch.max_tokens is not None:
            return self.job.batch.max_tokens
        config = json.loads((self.base / "config.json").read_text())
        return int(config.get("max_position_embeddings") or 2048)

    @property
    def is_half(self) -> bool:
        """Whether it calculates in bfloat16."""
        return self.job.dtype != "float32"


@dataclass(frozen=True)
class PolicyPlan:
    """A policy job for a backend, its tasks, and the folder that it is written to."""

    job: PolicyJob
    base: Path
    context_tokens: int
    """Of prompt and answer together, as the base's entry of models.yaml says."""
    train: TaskSet
    held_out: TaskSet
    folder: Path

    @property
    def clip(self) -> Clipping:
        """The objective's settings: published ones, and the job's over them."""
        found = settings_with(self.job.objective, self.job.objective_settings)
        assert isinstance(found, Clipping), f"{self.job.objective} has no clipping"
        return found

    @property
    def answer_tokens(self) -> int:
        """Most tokens of an answer."""
        return self.job.suite.reply_tokens(self.context_tokens)

    @property
    def held_out_tokens(self) -> int:
        """Most tokens of an answer to a held-out task."""
        return (self.job.evaluation.suite or self.job.suite).reply_tokens(self.context_tokens)

    @property
    def prompt_tokens(self) -> int:
        """A bound of the longest prompt: a token is at least a byte, whatever the tokenizer."""
        sizes = (
            sum(len(str(each["content"]).encode()) + TEMPLATE_TOKENS for each in task.messages)
            for task in (*self.train.tasks, *self.held_out.tasks)
        )
        return max(1, min(max(sizes), self.context_tokens - self.answer_tokens))

    @property
    def attempts(self) -> int:
        """Attempts a step."""
        return self.job.rollouts.groups * self.job.rollouts.group_size

    @property
    def warmup_steps(self) -> int:
        """Steps in which the learning rate rises."""
        return round(self.job.steps * self.job.optimizer.warmup_share)

    @property
    def measured_every(self) -> int:
        """Steps between held-out measurements; all, where the job asks for first and last only."""
        return self.job.evaluation.every or self.job.steps

    @property
    def gpus(self) -> int:
        """GPUs that the job names; 1 without any."""
        asked = self.job.gpus
        return len(asked) if isinstance(asked, tuple) else asked or 1

    @property
    def is_half(self) -> bool:
        """Whether it calculates in bfloat16."""
        return self.job.dtype != "float32"


Planned = TypeVar("Planned", BackendJob, PolicyPlan)


@dataclass(frozen=True)
class Trainer(Generic[Planned]):
    """A trainer of somebody else's: how its configuration is made."""

    name: str
    configuration: Callable[[Planned], dict[str, Any]]
    """Its own settings from a job; nested where its are."""
    write: Callable[[Planned, Mapping[str, Any]], tuple[str, str]]
    """(text of its configuration's file, lines of `launch.sh`) for its settings."""
    config_file: str
    """What its own schema is asked about, in the folder."""

    @property
    def schema(self) -> str:
        """The name of its schema: in `CHECKS`, and in `keys/`."""
        return self.name

    def settings(self, plan: Planned) -> dict[str, Any]:
        """Those of the job, and `backend_settings` over them. Raises BackendRefused."""
        made = self.configuration(plan)
        for name, value in flat(plan.job.backend_settings):
            *path, last = name.split(".")
            inner = made
            for each in path:
                inner = inner.setdefault(each, {})
            inner[last] = value
        return made


@dataclass(frozen=True)
class Backend(Trainer[BackendJob]):
    """A trainer on a fixed set."""

    read_steps: Callable[[Path], list[dict[str, Any]]]
    """Its log in the folder, as rows in the names of `train_steps`."""
    data_format: str | None = None
    """The export that it reads; None where it is given ids."""
    runs_here: bool = False
    """Whether tutti launches it itself, in its environment on this machine."""


@dataclass(frozen=True)
class PolicyBackend(Trainer[PolicyPlan]):
    """A trainer of policies."""

    refuse: Callable[[PolicyPlan], list[str]]
    """What it cannot do of a job, each with its field."""
    write_data: Callable[[PolicyPlan, Path], None]
    """Writes the tasks and the reward function into a folder."""
    differences: Callable[[PolicyPlan], list[str]]
    """What it does otherwise than tutti, and a job cannot change."""

    @property
    def schema(self) -> str:
        """As of any trainer."""
        return f"{self.name}-rl"


def check_names(backend: Trainer[Any], settings: Mapping[str, Any]) -> None:
    """Raises BackendRefused for a setting that the backend's list of names does not have."""
    version, known = known_names(backend.schema)
    tables = {f"{name}." for name, value in flat(settings) if value == {}}
    for name, _ in flat(settings):
        opened = (each[:-1] for each in known if each.endswith(".*"))
        if name in known or any(f"{name}.".startswith(each) for each in opened):
            continue
        if f"{name}." in tables and any(each.startswith(f"{name}.") for each in known):
            continue
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BackendRefused(
            f"backend_settings.{name}: {backend.name} has no such setting{hint} "
            f"(names of {version})"
        )


def known_names(backend: str) -> tuple[str, list[str]]:
    """(version, names) of a backend's settings; a name that ends in ``.*`` takes any below it."""
    first, *names = (KEYS / f"{backend}.txt").read_text().splitlines()
    return first.removeprefix("# "), names


def flat(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Each setting with its dotted name; names may be dotted, and values nested."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def overrides(settings: Mapping[str, Any], prefix: str = "") -> str:
    """Settings as Hydra's overrides, one a line."""
    return "".join(f"{prefix}{name}={json.dumps(value)}\n" for name, value in flat(settings))


def tokenise_command(plan: BackendJob, form: str) -> list[str]:
    """The arguments after a Python that write the set's ids for a backend; `form` names its
    columns."""
    command = ["-P", str(LAUNCHER), TOKENISE, "--base", str(plan.base), "--form", form]
    command += ["--rows", str(plan.training_set.rows), "--out", str(plan.folder / "tokens")]
    longest = plan.job.batch.max_tokens
    return command + (["--max-tokens", str(longest)] if longest else [])


def json_lines(file: Path) -> list[dict[str, Any]]:
    """The JSON objects of a log; an incomplete last line is left out."""
    if not file.is_file():
        return []
    rows = []
    for line in file.read_text(errors="replace").splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break  # still being written
    return rows


def named(row: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The figures of a row by our names: {ours: theirs}; those that are not there are left out."""
    found = {ours: row[theirs] for ours, theirs in names.items() if row.get(theirs) is not None}
    return found | ({"tokens": int(found["tokens"])} if "tokens" in found else {})


SCORERS = ("exact", "numeric", "math", "choice")
"""They need an answer and a target only."""
REWARDS = {
    "coalesce(score, 0)": "score",
    "score": "score",
    "if(coalesce(score, 0) = 1, 1, -1)": "1.0 if score == 1 else -1.0",
}
"""`reward.sql` that a file of Python can say: the expression of `score` that it writes."""


def reward_expression(job: PolicyJob) -> str:
    """The reward in Python, of `score`; for a job that `not_carried` says nothing of."""
    return REWARDS[" ".join(job.reward.sql.split())]


def not_carried(job: PolicyJob) -> Iterator[str]:
    """What no other trainer can be told, each with its field."""
    yield from _of_suite(job.suite, "suite")
    if job.evaluation.suite is not None:
        yield from _of_suite(job.evaluation.suite, "evaluation.suite")
    yield from _of_reward(job)
    if job.by_turns and job.reward.process is None:
        yield f"objective: {job.objective} gives each turn an advantage; these are one answer"
    if job.self_play is not None:
        yield "self_play: the other side is played by no other trainer"
    for name in ("minutes", "wall_time_minutes"):
        if getattr(job, name) is not None:
            yield f"{name}: it ends by `steps`"
    if job.rollouts.late_factor is not None:
        yield "rollouts.late_factor: it waits for every attempt"


def _of_suite(suite: Suite, where: str) -> Iterator[str]:
    if suite.request is not None:
        yield f"{where}.benchmark: {suite.benchmark}'s tasks need tutti's tools search and python"
    if suite.benchmarks:
        yield f"{where}.benchmarks: name one, as `benchmark`"
    if suite.harness.command is None and suite.command is not None and not suite.benchmarks:
        yield f"{where}.benchmark: attempts at {suite.benchmark} are made by {suite.command}"
    for name in ("command", "mcp", "search_index", "python", "parallel"):
        if getattr(suite.harness, name) is not None:
            yield f"{where}.harness.{name}: attempts are made by tutti"
    for name in ("judge", "user", "agent", "experts", "search_url"):
        if getattr(suite.roles, name):
            yield f"{where}.roles.{name}: other models and tools are called by tutti"


def _of_reward(job: PolicyJob) -> Iterator[str]:
    reward = job.reward
    if reward.process is not None:
        yield "reward.process: picks of turns are made by tutti"
    for name in ("preference", "parts"):
        if getattr(reward, name):
            yield f"reward.{name}: columns of `counted` are tutti's; a reward is the score"
    if " ".join(reward.sql.split()) not in REWARDS:
        known = " or ".join(map(repr, REWARDS))
        yield f"reward.sql: {reward.sql!r} is SQL over tutti's store; only {known} is carried"
    if reward.permuted:
        yield "reward.permuted: a control of tutti's own"
    if reward.least_deviation:
        yield "reward.least_deviation: groups are left out by tutti; give 0"


def not_carried_of(tasks: TaskSet, where: str) -> Iterator[str]:
    """Why tasks cannot be carried, each with how many."""
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
    """What the reward function is told of a task: its scorer, and the scorer's target."""
    return json.dumps(
        {"scorer": scorer.name, "version": scorer.version, "target": dict(task.target)}
    )


def with_tutti(launch: str) -> str:
    """Lines of `launch.sh` that begin with tutti's sources, whose scorers the reward calls."""
    return (
        f'export PYTHONPATH="${{TUTTI:-{PACKAGE.parent}}}${{PYTHONPATH:+:$PYTHONPATH}}"\n'
        "export HF_HUB_OFFLINE=1\n" + launch
    )
