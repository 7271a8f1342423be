"""The plan of a training job: ``tutti train plan``.

In: a job's file, of either kind, the registry, the store. Out: a `JobPlan`. Writes nothing, starts
no engine and downloads no data. Without a store, the catalog is None.
"""

import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tutti.storage import Catalog, Home, open_catalog
from tutti.storage import catalog as cat
from tutti.tasks.benchmarks import SourceMissing, parse_benchmark
from tutti.tasks.platform import read_document
from tutti.tasks.platform.gpus import Gpu, GpuClaim, GpuError, candidates, read_inventory
from tutti.tasks.serving import WeightsError
from tutti.tasks.serving.engines import models_python
from tutti.tasks.serving.metering import find_price, read_price_book
from tutti.tasks.serving.processes import ModelsEnvironmentMissing
from tutti.tasks.serving.registry import Model, read_registry, weights_here
from tutti.tasks.serving.weights import (
    hub_weights_here,
    is_hub_name,
    read_weights,
    require_trainable,
    weights_id,
)
from tutti.tasks.sweeps.plan import TaskSet
from tutti.tasks.sweeps.spec import Suite, open_named
from tutti.tasks.synthesis import find_made
from tutti.tasks.training.checkpoints import settings_of
from tutti.tasks.training.jobs.job import JobError, TrainJob, read_job, rows_of
from tutti.tasks.training.jobs.settings import steps_of
from tutti.tasks.training.objectives import PAIRS, settings_with
from tutti.tasks.training.plans.model_size import KNOWN, memory_parts, size_of_checkpoint
from tutti.tasks.training.plans.plan_base import JobPlan, size_text
from tutti.tasks.training.policy.cells import (
    evaluated_after,
    held_out_suite,
    keep_apart,
    rollout_suite,
)
from tutti.tasks.training.policy.job import NOT_CONTENT, PolicyJob, read_policy_job
from tutti.tasks.training.sets.build import left_out

AnyJob = TrainJob | PolicyJob
MEASURE = "record attempts first: `tutti sweep run SUITE` with `record_tokens` (docs/training.md)"
UNKNOWN = "unknown before the data are here"


def read_any_job(path: Path) -> AnyJob:
    """Read a job's file of either kind; one with a `suite` trains a policy on its own attempts.
    Raises JobError with file, line, field and value."""
    try:
        content = read_document(path, JobError).content
    except FileNotFoundError:
        return read_job(path)  # which lists the jobs that are there
    is_policy = isinstance(content, Mapping) and "suite" in content
    return read_policy_job(path) if is_policy else read_job(path)


def plan_job(job: AnyJob, models: Path, home: Home) -> JobPlan:
    """Plan `job` with the registry `models` and the store at `home`. Raises JobError,
    RegistryError, SuiteError, BenchmarkError and PriceError for invalid input."""
    plan = JobPlan(job.name, "sft" if isinstance(job, TrainJob) else "policy")
    with _store(home) as catalog:
        planner = _Planner(plan, job, read_registry(models), models, home, catalog)
        planner.plan_base()
        memory_bytes = planner.plan_memory()
        if isinstance(job, TrainJob):
            planner.plan_set(job)
        else:
            planner.plan_rollouts(job)
            planner.plan_tasks(job)
        planner.plan_objective()
        planner.plan_models()
        planner.plan_gpus(memory_bytes)
        planner.plan_reuse()
    try:
        models_python()
    except ModelsEnvironmentMissing as error:
        plan.lacks("no models environment", str(error))
    return plan


@contextmanager
def _store(home: Home) -> Iterator[Catalog | None]:
    """Yield the catalog, or None if it does not exist, because opening it would create it."""
    if not (home.catalog_file.exists() or os.environ.get("TUTTI_CATALOG_URL")):
        yield None
        return
    with open_catalog(home) as catalog:
        yield catalog


def _check_memory(total: int, card: Gpu | None, plan: JobPlan) -> None:
    """Compare the memory of a step with that of the trainer's GPU, or of this machine."""
    if card is None:
        there, where = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "this machine"
    elif card.memory_mb is None:
        return
    else:
        there, where = card.memory_mb * 2**20, f"gpu {card.index}"
    if total > there:
        needed = f"about {size_text(total)} for the trainer"
        todo = "train an adapter, shorten micro-batches, or use another machine or backend"
        plan.lacks(f"memory: {needed}, and {where} has {size_text(there)}", todo)


@dataclass
class _Planner:
    """Adds the facts of a job and the missing things to its plan."""

    plan: JobPlan
    job: AnyJob
    entries: Mapping[str, Model]
    registry: Path
    home: Home
    catalog: Catalog | None

    def __post_init__(self) -> None:
        """Resolve the base: a folder, a model of the Hub, or an entry of the registry."""
        name = self.job.base
        self.entry: Model | None = None
        self.hub_id: str | None = None
        self.folder: Path | None = None
        if isinstance(self.job, TrainJob) and Path(name).is_dir():
            self.folder = Path(name)
        elif isinstance(self.job, TrainJob) and is_hub_name(name):
            self.hub_id, self.folder = name, hub_weights_here(name)
        elif (entry := self.entries.get(name)) is not None:
            self.entry, self.hub_id, self.folder = entry, entry.hub_id, weights_here(entry)
        # Until it is fetched, its size is known by its name.
        sized = self.folder or (Path(self.hub_id.partition("@")[0]) if self.hub_id else None)
        self.size = None if sized is None else size_of_checkpoint(sized)
        self.fault: str | None = "no weights"
        if self.folder is not None:
            self.fault = None
            try:
                require_trainable(self.folder)
            except WeightsError as error:
                self.fault = str(error)

    def plan_base(self) -> None:
        """Add the base and its weights."""
        plan, name, folder = self.plan, self.job.base, self.folder
        plan.fact("base", "name", name)
        known = {"folder": folder and str(folder), "hub": self.hub_id}
        plan.settings("base", ((each, value) for each, value in known.items() if value))
        plan.fact("base", "weights_here", self.fault is None)
        if self.size is not None and self.size.parameters is not None:
            count = self.size.parameters
            plan.fact("base", "parameters", count, f"{count:,}, by {self.size.source}")
        if folder is None and self.hub_id is not None:
            self._lacks_fetched(self.hub_id)
        elif folder is None and self.entry is not None:
            todo = "only weights can be trained: name an entry with a `checkpoint`"
            plan.lacks(f"{name} has no checkpoint in {self.registry}", todo)
        elif folder is None:
            entries = ", ".join(sorted(self.entries)) or "none"
            todo = f"add it, or name another registry with --models; known: {entries}"
            plan.lacks(f"no entry {name!r} in {self.registry}", todo)
        elif not folder.is_dir():
            todo = f"fetch it there, or change `checkpoint` of {name} in {self.registry}"
            plan.lacks(f"no checkpoint folder {folder}", todo)
        elif self.fault is not None:
            what, _, todo = self.fault.rpartition("; ")
            plan.lacks(what or todo, todo)

    def _lacks_fetched(self, hub_id: str) -> None:
        name, _, revision = hub_id.partition("@")
        todo = f"the job fetches it, or now: `hf download {name} --revision {revision}`"
        self.plan.lacks(f"the Hub's cache has not all of {hub_id}", todo)

    def plan_memory(self) -> int:
        """Add what is trained, and the memory of a step with its arithmetic. Returns the memory in
        bytes, 0 if unknown."""
        job, plan, size, lora = self.job, self.plan, self.size, self.job.lora
        if size is None or size.parameters is None:
            text = "unknown: no config.json that tutti can read, and the folder is none of "
            plan.fact("trained", "parameters", None, text + ", ".join(KNOWN))
            return 0
        adapter = None
        if lora is not None:
            if unknown := sorted(set(lora.targets) - size.matrices.keys()):
                todo = f"lora.targets: some of {', '.join(size.matrices)}"
                plan.lacks(f"no matrix {unknown[0]!r} in {job.base}", todo)
                return 0
            adapter = size.adapter_parameters(lora)
        plan.fact("trained", "what", "weights" if adapter is None else "adapter")
        plan.fact("trained", "parameters", size.parameters if adapter is None else adapter)
        if isinstance(job, PolicyJob):
            tokens = max(job.batch_tokens, 0 if self.entry is None else self.entry.context_tokens)
        else:  # a longer sequence, or pair, has a micro-batch of its own
            unit = 2 if job.objective in PAIRS else 1
            tokens = max(job.batch.tokens, unit * (job.batch.max_tokens or 0))
        parts = memory_parts(size, size.parameters, job, tokens, adapter)
        for each in parts:
            value = {"bytes": each.size_bytes, "arithmetic": each.arithmetic}
            text = f"{size_text(each.size_bytes):>9} = {each.arithmetic}"
            plan.fact("memory", each.what, value, text)
        total = sum(each.size_bytes for each in parts)
        plan.fact("memory", "total", {"bytes": total}, f"{size_text(total):>9}")
        return total

    def plan_set(self, job: TrainJob) -> None:
        """Add data and steps of a fixed set. Raises JobError if the query fails."""
        plan, data, rows = self.plan, job.data, self._rows(job)
        plan.fact("data", "from" if data.query else "file", data.query or str(data.file))
        text = "unknown" if rows is None else f"{rows:,}, before any is left out"
        plan.fact("data", "rows", rows, text)
        settings = data.model_dump(mode="json", include={"tokens", "splits", "held_out_share"})
        plan.settings("data", settings.items())
        trained = None if not rows else math.ceil(rows * (1 - data.held_out_share))
        passes = None if trained is None else job.passes
        steps = steps_of(trained or 0, job.batch.sequences, passes, job.steps)
        plan.fact("work", "steps", steps, UNKNOWN if steps is None else f"at most {steps:,}")
        known = {"minutes": job.minutes, "sequences_a_step": job.batch.sequences}
        plan.settings("work", known.items())
        if rows and self.catalog is not None:
            self._left_out("data", left_out(data, job.objective, self.catalog))
            model = data.embedder and data.embedder.model
            text = "not run: no data.embedder" if model is None else f"by {model}, when it starts"
            plan.fact("data", "guard_of_rewordings", model, text)

    def _rows(self, job: TrainJob) -> int | None:
        """Number of attempts or conversations of the job; None if they are not on this machine."""
        file, rows = job.data.file, None
        if file is not None and not file.is_file():
            todo = "write it: one conversation a line (docs/training.md)"
            self.plan.lacks(f"no data: no file {file}", todo)
        elif file is not None:
            with file.open("rb") as lines:
                rows = sum(1 for line in lines if line.strip())
        elif self.catalog is None:
            self.plan.lacks(f"no data: there is no store at {self.home.root}", MEASURE)
        else:
            statement = (job.data.query or "").strip().rstrip(";")
            counted = rows_of(f"select count(*) as n from ({statement})", self.home, "data.from")
            rows = int(counted[0]["n"])
        if rows == 0:
            source = f"{file} is empty" if file else "the query names no attempt"
            self.plan.lacks(f"no data: {source}", MEASURE)
        return rows

    def _left_out(self, part: str, dropped: Counter[str]) -> None:
        text = "; ".join(f"{n:,} x {why}" for why, n in dropped.items()) or "none"
        self.plan.fact(part, "left_out", dict(dropped), text)

    def plan_rollouts(self, job: PolicyJob) -> None:
        """Add steps, attempts and tokens of the rollouts: the maximum, and with dynamic sampling
        the minimum."""
        plan, rolled, suite = self.plan, job.rollouts, job.suite
        least = most = rolled.groups
        if (dynamic := rolled.dynamic) is not None:
            rounds = min(dynamic.most_rounds, math.ceil(rolled.groups / dynamic.round_groups))
            least, most = rounds * dynamic.round_groups, dynamic.most_rounds * dynamic.round_groups
        plan.settings("rollouts", [("benchmark", suite.benchmark_name), ("steps", job.steps)])
        groups = {"least": least, "most": most, "size": rolled.group_size}
        plan.fact("rollouts", "groups_a_step", groups)
        attempts = job.steps * most * rolled.group_size
        plan.fact("rollouts", "attempts", {"least": attempts * least // most, "most": attempts})
        if suite.command is not None:
            text = "unknown: the harness decides how often it calls"
            plan.fact("rollouts", "completion_tokens", None, text)
            return
        answer = suite.reply_tokens(None if self.entry is None else self.entry.context_tokens)
        turns, tokens = suite.limits.max_turns, {"completion_tokens": answer}
        if self.entry is not None:
            tokens["prompt_tokens"] = max(self.entry.context_tokens - answer, 1)
        for name, each in tokens.items():
            total = attempts * turns * each
            text = f"at most {total:,} = {attempts:,} attempts x {turns} turns x {each:,}"
            plan.fact("rollouts", name, total, text)

    def plan_tasks(self, job: PolicyJob) -> None:
        """Add the training tasks and the held-out tasks. Raises SuiteError, BenchmarkError."""
        plan, evaluation, at = self.plan, job.evaluation, evaluated_after(job)
        train, most = self._tasks(rollout_suite(job))
        test, held_out = self._tasks(held_out_suite(job))
        few = "" if train is not None else "at most "
        text = UNKNOWN if most is None else f"{few}{most:,}"
        plan.fact("rollouts", "tasks", most, text)
        if train is not None and test is not None:
            home = None if self.catalog is None else self.catalog.home
            apart = keep_apart(train, test, job, home)
            self._left_out("rollouts", Counter(apart.left_out.values()))
        counts = [each for each in (held_out, evaluation.limit) if each is not None]
        plan.fact("held-out", "split", evaluation.split)
        plan.fact("held-out", "evaluations", len(at))
        plan.fact("held-out", "trials", evaluation.trials)
        attempts = len(at) * min(counts) * evaluation.trials if counts else None
        few = "" if test is not None else "at most "
        text = UNKNOWN if attempts is None else f"{few}{attempts:,}"
        plan.fact("held-out", "attempts", attempts, text)

    def _tasks(self, suite: Suite) -> tuple[TaskSet | None, int | None]:
        """The tasks of a suite that are on this machine, and the most tasks that it can have."""
        if (request := suite.request) is not None:
            made = None if self.catalog is None else find_made(self.catalog, request)
            if made is not None and self.catalog is not None:
                tasks = TaskSet.made(made[0], self.catalog, suite)
                return tasks, len(tasks.tasks)
            is_train = suite.data.split == "train"
            each = request.train_per_family if is_train else request.test_per_family
            return None, each * len(request.families)
        benchmark = open_named(suite.benchmark, suite.data)
        if not (suite.data.source or benchmark.own or parse_benchmark(suite.benchmark).path):
            todo = "give the data's folder with `suite.data.source`"
            if benchmark.hub is None:
                self.plan.lacks(f"no data of {benchmark.name}", todo)
            elif find_spec("huggingface_hub") is None:
                what = f"no data: {benchmark.name} is on the hub; huggingface_hub is not installed"
                self.plan.lacks(what, f"install it, or {todo}")
            return None, None
        try:
            tasks = TaskSet.read(suite)
        except SourceMissing as error:
            repository = "" if benchmark.hub is None else f" (hub: {benchmark.hub.repository})"
            todo = f"put the benchmark's files there{repository}, or change `suite.data.source`"
            self.plan.lacks(f"no data: {error}", todo)
            return None, None
        return tasks, len(tasks.tasks)

    def plan_objective(self) -> None:
        """Add the objective with all its settings, and the optimizer; for a policy job also the
        reward, without unused fields."""
        job, plan = self.job, self.plan
        settings = settings_with(job.objective, job.objective_settings)
        every = {} if settings is None else asdict(settings)
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

    def plan_models(self) -> None:
        """Add the models that a policy job needs besides its base, and missing prices."""
        job, plan = self.job, self.plan
        if isinstance(job, TrainJob):
            return
        for name in job.others:
            entry = self.entries.get(name)
            where = None if entry is None else str(entry.endpoint or entry.checkpoint)
            plan.fact("models", name, where)
            if entry is None:
                plan.lacks(f"no entry {name!r} in {self.registry}", "add the model")
            elif entry.checkpoint is not None:
                self._check_served(name, entry)
            elif (key := entry.api_key_env) is not None and not os.environ.get(key):
                plan.lacks(f"no key of {name}: {key} is not set", f"export {key}")
        if self.entry is not None and self.entry.engine is None:
            what = f"{job.base} has no `engine` in {self.registry}"
            plan.lacks(what, "add one: tutti serves the policy while it trains")
        if not job.reward.weighs_cost:
            return
        # A preference for cost ends with an error where a model has no price.
        process, book, now = job.reward.process, read_price_book(), datetime.now(UTC)
        unpriced = {job.suite.roles.judge, job.suite.roles.user, process and process.judge}
        for name in (job.base, *(each for each in job.others if each not in unpriced)):
            entry = self.entries.get(name)
            if entry is None or entry.prices is not None:
                continue
            known = (entry.served_name or name, name)
            if all(find_price(book, each, now) is None for each in known):
                what = f"no prices of {name}, and reward.preference weighs cost"
                plan.lacks(what, f"state `prices` in its entry of {self.registry}")

    def _check_served(self, name: str, entry: Model) -> None:
        folder = weights_here(entry)
        if folder is None:
            return self._lacks_fetched(entry.hub_id or name)
        try:
            read_weights(folder)
        except WeightsError as error:
            what, _, todo = str(error).rpartition("; ")
            self.plan.lacks(f"no checkpoint of {name}: {what or todo}", todo)

    def plan_gpus(self, memory_bytes: int) -> None:
        """Add the GPUs of the trainer, which needs `memory_bytes`, and of each engine."""
        wanted = {"trainer": GpuClaim(self.job.gpus)}
        if isinstance(self.job, PolicyJob):
            for name in (self.job.base, *self.job.others):
                entry = self.entries.get(name)
                if entry is not None and entry.engine is not None and entry.engine.gpus is not None:
                    wanted[f"engine {name}"] = GpuClaim(entry.engine.gpus)
        for who, claim in wanted.items():
            try:
                cards, count = candidates(claim, read_inventory(self.home))
            except GpuError as error:
                self.plan.fact("gpus", who, claim.wanted, f"{claim.wanted}: not here")
                todo = "use a machine that has them, or change `gpus` of the job or the entry"
                self.plan.lacks(f"{who}: {error}", todo)
                continue
            if who == "trainer":
                _check_memory(memory_bytes, cards[0] if count else None, self.plan)
            names = ", ".join(f"gpu {card.index}" for card in cards)
            self.plan.fact("gpus", who, count, f"{count} of {names}" if count else "none: the CPU")

    def plan_reuse(self) -> None:
        """Add what the store already has for this job: its tasks, and a checkpoint with the same
        settings, which is reused only if its data and the files that it names are the same."""
        job, plan, tasks, trained = self.job, self.plan, None, None
        if self.catalog is not None:
            if isinstance(job, PolicyJob) and job.suite.request is not None:
                tasks = find_made(self.catalog, job.suite.request)
            if self.folder is not None and self.fault is None:
                trained = self._trained(self.catalog, self.folder)
        if tasks is not None:
            plan.fact("reused", "task_set", tasks[0])
        if trained is not None:
            text = f"{trained}, if its data and files are the same: then nothing is trained"
            plan.fact("reused", "checkpoint", trained, text)
        if tasks is None and trained is None:
            plan.fact("reused", "nothing", True, "nothing of it is in the store")

    def _trained(self, catalog: Catalog, base: Path) -> str | None:
        kind, artifacts = "checkpoint" if self.job.lora is None else "adapter", cat.artifacts
        newest = artifacts.c.created_at.desc()
        rows = catalog.rows(sa.select(artifacts).where(artifacts.c.kind == kind).order_by(newest))
        cards = {str(row["artifact_id"]): json.loads(row["detail"]) for row in rows}
        bases = {name: card["base"] for name, card in cards.items() if _is_of(self.job, card)}
        if not bases:
            return None  # before the base is read whole for its id
        base_id = weights_id(base)
        return next((name for name, its_base in bases.items() if its_base == base_id), None)


def _is_of(job: AnyJob, card: Mapping[str, Any]) -> bool:
    settings = card.get("settings")
    if not isinstance(settings, dict):
        return False
    if isinstance(job, TrainJob):
        data = card.get("data", {})
        same = data.get("query") == job.data.query if job.data.query else "file" in data
        return same and settings == settings_of(job)
    return {name: settings[name] for name in settings if name not in NOT_CONTENT} == job.content
