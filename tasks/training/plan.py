"""What a training job would do, without starting anything: ``tutti train plan``.

In: a job's file, of either kind, the registry, the store. Out: a `JobPlan`: base, memory, steps,
attempts, tokens, objective, reward, models, GPUs, what is reused, and what this machine lacks.
Nothing is written, no engine is started and no data are downloaded.

Without a store yet, the catalog is None.
"""

import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tutti.storage import Catalog, Home, open_catalog
from tutti.storage import catalog as cat
from tutti.tasks.benchmarks import SourceMissing, parse_benchmark
from tutti.tasks.config import read_document
from tutti.tasks.gpus import GpuClaim, GpuError, candidates, read_inventory
from tutti.tasks.serving import Model, ModelsEnvironmentMissing, read_registry
from tutti.tasks.serving.engines import models_python
from tutti.tasks.serving.metering import find_price, read_price_book
from tutti.tasks.serving.weights import weights_id
from tutti.tasks.sweeps.plan import TaskSet
from tutti.tasks.sweeps.spec import Suite, open_named
from tutti.tasks.synthesis import find_made
from tutti.tasks.training.checkpoints import settings_of
from tutti.tasks.training.job import JobError, TrainJob, read_job, rows_of
from tutti.tasks.training.objectives import settings_with
from tutti.tasks.training.plan_base import (
    AnyJob,
    JobPlan,
    PlannedBase,
    check_memory,
    check_served,
    plan_memory,
    planned_base,
    span_text,
)
from tutti.tasks.training.policy.cells import (
    evaluated_after,
    held_out_suite,
    keep_apart,
    rollout_suite,
)
from tutti.tasks.training.policy.job import NOT_CONTENT, PolicyJob, read_policy_job
from tutti.tasks.training.sets.build import left_out
from tutti.tasks.training.settings import steps_of

MEASURE = "record attempts first: `tutti sweep run SUITE` with `record_tokens` (docs/training.md)"
HUB = "huggingface_hub"


@dataclass(frozen=True)
class TaskCount:
    """How many tasks a split has."""

    most: int | None
    """None where that is not known before the data are here."""
    exact: bool = True
    """Whether there are as many; else no more than these."""


def plan_set(job: TrainJob, home: Home, catalog: Catalog | None, plan: JobPlan) -> None:
    """Add data and steps of a fixed set. Raises JobError where the query fails."""
    rows, asked = _rows(job, home, catalog, plan), job.data
    if rows == 0:
        source = "the query names no attempt" if asked.query else f"{asked.file} is empty"
        plan.lacks(f"no data: {source}", MEASURE)
    plan.fact("data", "from" if asked.query else "file", asked.query or str(asked.file))
    text = "unknown" if rows is None else f"{rows:,}, before any is left out"
    plan.fact("data", "rows", rows, text)
    for name in ("tokens", "splits", "held_out_share"):
        plan.fact("data", name, asked.model_dump(mode="json")[name])
    trained = None if not rows else math.ceil(rows * (1 - asked.held_out_share))
    passes = None if trained is None else job.passes
    steps = steps_of(trained or 0, job.batch.sequences, passes, job.steps)
    text = "unknown before the data are here" if steps is None else f"at most {steps:,}"
    text += "" if job.minutes is None else f", ends after {job.minutes:g} min"
    plan.fact("work", "steps", steps, text)
    plan.fact("work", "sequences_a_step", job.batch.sequences)
    if rows and catalog is not None:
        _left_out("data", left_out(asked, job.objective, catalog), plan)
        model = asked.embedder and asked.embedder.model
        by = "not run: no data.embedder" if model is None else f"by {model}, when it starts"
        plan.fact("data", "guard_of_rewordings", model, by)


def _rows(job: TrainJob, home: Home, catalog: Catalog | None, plan: JobPlan) -> int | None:
    """Attempts or conversations that the job names, as far as they are here."""
    file = job.data.file
    if file is not None and not file.is_file():
        todo = "write it: one conversation a line (docs/training.md)"
        plan.lacks(f"no data: no file {file}", todo)
    elif file is not None:
        with file.open("rb") as lines:
            return sum(1 for line in lines if line.strip())
    elif catalog is None:
        plan.lacks(f"no data: there is no store at {home.root}", MEASURE)
    else:
        statement = (job.data.query or "").strip().rstrip(";")
        (counted,) = rows_of(f"select count(*) as n from ({statement})", home, "data.from")
        return int(counted["n"])
    return None


def _left_out(part: str, dropped: Counter[str], plan: JobPlan) -> None:
    """Add what may not be trained on, by reason."""
    text = "; ".join(f"{n:,} x {why}" for why, n in dropped.items()) or "none"
    plan.fact(part, "left_out", dict(dropped), text)


def plan_tasks(job: PolicyJob, catalog: Catalog | None, plan: JobPlan) -> None:
    """Add the tasks of a policy job, trained on and held out. Raises SuiteError, BenchmarkError."""
    train, train_tasks = _count(rollout_suite(job), catalog, plan)
    test, test_tasks = _count(held_out_suite(job), catalog, plan)
    few = "" if train.exact else "at most "
    text = "unknown before the data are here" if train.most is None else f"{few}{train.most:,}"
    plan.fact("rollouts", "tasks", train.most, text)
    if train_tasks is not None and test_tasks is not None:
        home = None if catalog is None else catalog.home
        apart = keep_apart(train_tasks, test_tasks, job, home)
        _left_out("rollouts", Counter(apart.left_out.values()), plan)
    _plan_held_out(job, test, plan)


def _count(
    suite: Suite, catalog: Catalog | None, plan: JobPlan
) -> tuple[TaskCount, TaskSet | None]:
    """How many tasks a suite has, and the tasks as far as they are here."""
    if (asked := suite.request) is not None:
        made = None if catalog is None else find_made(catalog, asked)
        if made is not None and catalog is not None:
            tasks = TaskSet.made(made[0], catalog, suite)
            return TaskCount(len(tasks.tasks)), tasks
        is_train = suite.data.split == "train"
        each = asked.train_per_family if is_train else asked.test_per_family
        return TaskCount(each * len(asked.families), exact=False), None
    benchmark, source = open_named(suite.benchmark, suite.data), suite.data.source
    own = source or benchmark.own or parse_benchmark(suite.benchmark).path
    if own is None:
        todo = "give the data's folder with `suite.data.source`"
        if benchmark.hub is None:
            plan.lacks(f"no data of {benchmark.name}", todo)
        elif find_spec(HUB) is None:
            what = f"no data: {benchmark.name} is on the hub, and {HUB} is not installed"
            plan.lacks(what, f"install it, or {todo}")
        return TaskCount(None), None
    try:
        tasks = TaskSet.read(suite)
        return TaskCount(len(tasks.tasks)), tasks
    except SourceMissing as error:
        repository = "" if benchmark.hub is None else f" (hub: {benchmark.hub.repository})"
        todo = f"put the benchmark's files there{repository}, or change `suite.data.source`"
        plan.lacks(f"no data: {error}", todo)
        return TaskCount(None), None


def plan_reuse(job: AnyJob, base: PlannedBase, catalog: Catalog | None, plan: JobPlan) -> None:
    """Add what the store has already of this job: its tasks, and a checkpoint of the same settings.

    That is reused only if its data and the files that it names are the same too, which is known
    when it starts.
    """
    found = trained = None
    if catalog is not None and isinstance(job, PolicyJob) and job.suite.request is not None:
        found = find_made(catalog, job.suite.request)
    if catalog is not None and base.is_here and base.folder is not None:
        trained = _trained(job, base.folder, catalog)
    if found is not None:
        plan.fact("reused", "task_set", found[0])
    if trained is not None:
        text = f"{trained}, if its data and files are the same: then nothing is trained"
        plan.fact("reused", "checkpoint", trained, text)
    if found is None and trained is None:
        plan.fact("reused", "nothing", True, "nothing of it is in the store")


def _trained(job: AnyJob, base: Path, catalog: Catalog) -> str | None:
    kind = "checkpoint" if job.lora is None else "adapter"
    artifacts = cat.artifacts
    rows = catalog.rows(
        sa.select(artifacts).where(artifacts.c.kind == kind).order_by(artifacts.c.created_at.desc())
    )
    cards = {str(row["artifact_id"]): json.loads(row["detail"]) for row in rows}
    found = {name: card["base"] for name, card in cards.items() if _is_of(job, card)}
    if not found:
        return None  # before the base is read whole for its id
    base_id = weights_id(base)
    return next((name for name, its_base in found.items() if its_base == base_id), None)


def _is_of(job: AnyJob, card: dict[str, Any]) -> bool:
    settings = card.get("settings")
    if not isinstance(settings, dict):
        return False
    if isinstance(job, TrainJob):
        data = card.get("data", {})
        same = data.get("query") == job.data.query if job.data.query else "file" in data
        return same and settings == settings_of(job)
    kept = {name: value for name, value in settings.items() if name not in NOT_CONTENT}
    return kept == job.content


def plan_rollouts(job: PolicyJob, entry: Model | None, plan: JobPlan) -> None:
    """Add steps, attempts and tokens of the rollouts: at most, and with dynamic sampling at
    least."""
    rolled, suite = job.rollouts, job.suite
    size, dynamic = rolled.group_size, rolled.dynamic
    least = most = rolled.groups
    if dynamic is not None:
        rounds = min(dynamic.most_rounds, math.ceil(rolled.groups / dynamic.round_groups))
        least, most = rounds * dynamic.round_groups, dynamic.most_rounds * dynamic.round_groups
    attempts = (job.steps * least * size, job.steps * most * size)
    plan.settings("rollouts", [("benchmark", suite.benchmark_name), ("steps", job.steps)])
    groups = {"least": least, "most": most, "size": size}
    plan.fact("rollouts", "groups_a_step", groups, f"{span_text(least, most)} groups x {size}")
    span = {"least": attempts[0], "most": attempts[1]}
    plan.fact("rollouts", "attempts", span, span_text(*attempts))
    if suite.command is not None:
        text = "unknown: the harness decides how often it calls"
        return plan.fact("rollouts", "completion_tokens", None, text)
    turns = suite.limits.max_turns
    answer = suite.reply_tokens(None if entry is None else entry.context_tokens)
    calls = attempts[1] * turns
    a_call = f"{attempts[1]:,} attempts x {turns} turns x"
    text = f"at most {calls * answer:,} = {a_call} {answer:,}"
    plan.fact("rollouts", "completion_tokens", calls * answer, text)
    if entry is not None:
        prompt = max(entry.context_tokens - answer, 1)
        text = f"at most {calls * prompt:,} = {a_call} {prompt:,} (context less answer)"
        plan.fact("rollouts", "prompt_tokens", calls * prompt, text)


def _plan_held_out(job: PolicyJob, tasks: TaskCount, plan: JobPlan) -> None:
    """Add how often the held-out tasks are measured, and how many attempts that is."""
    asked, at = job.evaluation, list(evaluated_after(job))
    counts = [each for each in (tasks.most, asked.limit) if each is not None]
    text = f"{len(at)}, " + ("before and after" if len(at) == 2 else f"every {asked.every} steps")
    plan.fact("held-out", "split", asked.split)
    plan.fact("held-out", "evaluations", len(at), text)
    plan.fact("held-out", "trials", asked.trials)
    if not counts:
        return plan.fact("held-out", "attempts", None, "unknown before the data are here")
    count = min(counts)
    total = len(at) * count * asked.trials
    few = "" if tasks.exact and tasks.most is not None else "at most "
    text = f"{few}{total:,} = {len(at)} x {count:,} tasks x {asked.trials} trials"
    return plan.fact("held-out", "attempts", total, text)


def plan_objective(job: AnyJob, plan: JobPlan) -> None:
    """Add the objective with all its settings, and the optimizer; of a policy job what attempts
    earn, without the fields that are not used."""
    settings = settings_with(job.objective, job.objective_settings)
    every: dict[str, Any] = {} if settings is None else asdict(settings)
    plan.settings("objective", [("name", job.objective), *every.items()])
    plan.settings("optimizer", job.optimizer.model_dump(mode="json").items())
    if isinstance(job, TrainJob):
        return
    reward = job.reward
    shown = reward.model_dump(mode="json", exclude_defaults=True)
    shown["advantage"] = reward.advantage
    if not (reward.parts or reward.preference):
        shown["sql"] = reward.sql
    if job.by_turns:
        shown["gamma"] = reward.gamma
    plan.settings("reward", shown.items())


POLICY_FIELD = "suite"
"""A job whose file has it trains a policy on its own attempts."""


def read_any_job(path: Path) -> AnyJob:
    """A job's file of either kind. Raises JobError with file, line, field and value."""
    try:
        content = read_document(path, JobError).content
    except FileNotFoundError:
        return read_job(path)  # which lists the jobs that are there
    is_policy = isinstance(content, Mapping) and POLICY_FIELD in content
    return read_policy_job(path) if is_policy else read_job(path)


def plan_job(job: AnyJob, models: Path, home: Home) -> JobPlan:
    """What `job` would do with the registry `models` and the store at `home`.

    Raises JobError, RegistryError, SuiteError, BenchmarkError and PriceError for what is invalid.
    """
    entries = read_registry(models)
    plan = JobPlan(job.name, "sft" if isinstance(job, TrainJob) else "policy")
    base = planned_base(job, entries, models, plan)
    memory_bytes = plan_memory(job, base, plan)
    with _store(home) as catalog:
        if isinstance(job, TrainJob):
            plan_set(job, home, catalog, plan)
        else:
            plan_rollouts(job, base.entry, plan)
            plan_tasks(job, catalog, plan)
        plan_objective(job, plan)
        if isinstance(job, PolicyJob):
            _check_prices(job, entries, models, plan)
        _plan_others(job, base, entries, models, plan)
        _plan_gpus(job, base, entries, home, plan)
        plan_reuse(job, base, catalog, plan)
    _check_machine(job, memory_bytes, home, plan)
    return plan


@contextmanager
def _store(home: Home) -> Iterator[Catalog | None]:
    """The catalog; None where there is none yet, because opening it would create it."""
    if not (home.catalog_file.exists() or os.environ.get("TUTTI_CATALOG_URL")):
        yield None
        return
    with open_catalog(home) as catalog:
        yield catalog


def _plan_others(
    job: AnyJob, base: PlannedBase, entries: Mapping[str, Model], registry: Path, plan: JobPlan
) -> None:
    """Add the models that a job needs besides its base."""
    names = job.others if isinstance(job, PolicyJob) else ()
    for name in names:
        entry = entries.get(name)
        where = "no such entry" if entry is None else str(entry.endpoint or entry.checkpoint)
        plan.fact("models", name, None if entry is None else where, where)
        if entry is None:
            plan.lacks(f"no entry {name!r} in {registry}", "add the model")
        elif entry.checkpoint is not None:
            check_served(name, entry, plan)
        elif (key := entry.api_key_env) is not None and not os.environ.get(key):
            plan.lacks(f"no key of {name}: {key} is not set", f"export {key}")
    if base.entry is not None and base.entry.engine is None and isinstance(job, PolicyJob):
        what = f"{base.name} has no `engine` in {registry}"
        plan.lacks(what, "add one: tutti serves the policy while it trains")
    if not names:
        plan.fact("models", "others", [], "none")


def _check_prices(
    job: PolicyJob, entries: Mapping[str, Model], registry: Path, plan: JobPlan
) -> None:
    """Add models without a price, where the preference weighs cost: a reward would end with an
    error."""
    if not job.reward.weighs_cost:
        return
    process = job.reward.process
    aside = {job.suite.roles.judge, job.suite.roles.user, process.judge if process else None}
    book, now = read_price_book(), datetime.now(UTC)
    for name in (job.base, *(each for each in job.others if each not in aside)):
        entry = entries.get(name)
        if entry is None or entry.prices is not None:
            continue
        known = (entry.served_name or name, name)
        if all(find_price(book, each, now) is None for each in known):
            what = f"no prices of {name}, and reward.preference weighs cost"
            plan.lacks(what, f"state `prices` in its entry of {registry}")


def _plan_gpus(
    job: AnyJob, base: PlannedBase, entries: Mapping[str, Model], home: Home, plan: JobPlan
) -> None:
    """Add the cards of the trainer and of each engine that is started, and which are not here."""
    wanted = {"trainer": GpuClaim(job.gpus)}
    if isinstance(job, PolicyJob):
        started = [(base.name, base.entry), *((name, entries.get(name)) for name in job.others)]
        for name, entry in started:
            if entry is not None and entry.engine is not None and entry.engine.gpus is not None:
                wanted[f"engine {name}"] = GpuClaim(entry.engine.gpus)
    for who, claim in wanted.items():
        try:
            cards, count = candidates(claim, read_inventory(home))
        except GpuError as error:
            plan.fact("gpus", who, claim.wanted, f"{claim.wanted}: not here")
            todo = "use a machine that has them, or change `gpus` of the job or the entry"
            plan.lacks(f"{who}: {error}", todo)
            continue
        some = " of ".join([str(count), ", ".join(f"gpu {card.index}" for card in cards)])
        plan.fact("gpus", who, count, some if count else "none: the CPU")


def _check_machine(job: AnyJob, memory_bytes: int, home: Home, plan: JobPlan) -> None:
    """Add what is missing of the trainer's environment, and of the memory of its first card."""
    try:
        models_python()
    except ModelsEnvironmentMissing as error:
        plan.lacks("no models environment", str(error))
    with suppress(GpuError):  # told already
        cards, count = candidates(GpuClaim(job.gpus), read_inventory(home))
        check_memory(memory_bytes, cards[0] if count else None, plan)
