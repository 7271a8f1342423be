"""Of a planned training: the tasks or attempts that it reads, and what of the store is reused.

In: a job and the catalog, None where there is no store yet. Nothing is written, and no data are
downloaded.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tutti.storage import Catalog, Home, query
from tutti.storage import catalog as cat
from tutti.tasks.benchmarks import SourceMissing, parse_benchmark
from tutti.tasks.serving import weights_id
from tutti.tasks.sweeps.plan import TaskSet, made_tasks, read_set
from tutti.tasks.sweeps.spec import STDLIB, Suite, open_named
from tutti.tasks.synthesis import find_made
from tutti.tasks.training.checkpoints import settings_of
from tutti.tasks.training.job import JobError, TrainJob
from tutti.tasks.training.plan_base import AnyJob, PlannedBase
from tutti.tasks.training.plan_facts import MissingThing, PlanFact
from tutti.tasks.training.plan_work import TaskCount, held_out_facts, set_facts
from tutti.tasks.training.policy.apart import keep_apart
from tutti.tasks.training.policy.cells import held_out_suite, rollout_suite
from tutti.tasks.training.policy.job import NOT_CONTENT, PolicyJob
from tutti.tasks.training.sets.build import left_out

MEASURE = "record attempts first: `tutti sweep run SUITE` with `record_tokens` (docs/training.md)"
HUB = "huggingface_hub"


@dataclass
class PlannedData:
    """What a job reads, as far as it is here."""

    facts: list[PlanFact] = field(default_factory=list)
    missing: list[MissingThing] = field(default_factory=list)


def planned_set(job: TrainJob, home: Home, catalog: Catalog | None) -> PlannedData:
    """The attempts or conversations of a fixed set. Raises JobError where the query fails."""
    missing, rows = [], None
    if job.data.file is not None:
        if job.data.file.is_file():
            with job.data.file.open("rb") as lines:
                rows = sum(1 for line in lines if line.strip())
        else:
            todo = "write it: one conversation a line (docs/training.md)"
            missing.append(MissingThing(f"no data: no file {job.data.file}", todo))
    elif catalog is None:
        missing.append(MissingThing(f"no data: there is no store at {home.root}", MEASURE))
    else:
        rows = _rows_of(job.data.query or "", home)
    if rows == 0:
        source = "the query names no attempt" if job.data.query else f"{job.data.file} is empty"
        missing.append(MissingThing(f"no data: {source}", MEASURE))
    facts = set_facts(job, rows)
    if rows and catalog is not None:
        asked = job.data.embedder
        by = "not run: no data.embedder" if asked is None else f"by {asked.model}, when it starts"
        facts.append(left_out_fact("data", left_out(job.data, job.objective, catalog)))
        facts.append(PlanFact("data", "guard_of_rewordings", asked and asked.model, by))
    return PlannedData(facts, missing)


def left_out_fact(part: str, dropped: Counter[str]) -> PlanFact:
    """What may not be trained on, by reason."""
    text = "; ".join(f"{n:,} x {why}" for why, n in dropped.items()) or "none"
    return PlanFact(part, "left_out", dict(dropped), text)


def _rows_of(sql: str, home: Home) -> int:
    try:
        (row,) = query(f"select count(*) as n from ({sql.strip().rstrip(';')})", home)
    except Exception as error:  # whatever DuckDB says of somebody's statement
        raise JobError(f"data.from: {error}") from None
    return int(row["n"])


def planned_tasks(job: PolicyJob, catalog: Catalog | None) -> PlannedData:
    """The tasks of a policy job, trained on and held out. Raises SuiteError, BenchmarkError."""
    found = PlannedData()
    counts, sides = [], []
    for suite in (rollout_suite(job), held_out_suite(job)):
        count, tasks, missing = _count(suite, catalog)
        counts.append(count)
        sides.append(tasks)
        found.missing += [each for each in missing if each not in found.missing]
    train = counts[0]
    few = "" if train.exact else "at most "
    text = "unknown before the data are here" if train.most is None else f"{few}{train.most:,}"
    found.facts.append(PlanFact("rollouts", "tasks", train.most, text))
    train_tasks, test_tasks = sides
    if train_tasks is not None and test_tasks is not None:
        home = None if catalog is None else catalog.home
        apart = keep_apart(train_tasks, test_tasks, job, home)
        found.facts.append(left_out_fact("rollouts", Counter(apart.left_out.values())))
    found.facts += held_out_facts(job, counts[1])
    return found


def _count(
    suite: Suite, catalog: Catalog | None
) -> tuple[TaskCount, TaskSet | None, list[MissingThing]]:
    """How many tasks a suite has, the tasks as far as they are here, and what is missing."""
    if suite.benchmark == STDLIB:
        made = None if catalog is None else find_made(catalog, suite.tasks)
        if made is not None and catalog is not None:
            tasks = made_tasks(made[0], catalog, suite.data.split)
            return TaskCount(len(tasks.tasks)), tasks, []
        asked = suite.tasks
        is_train = suite.data.split == "train"
        each = asked.train_per_family if is_train else asked.test_per_family
        return TaskCount(each * len(asked.families), exact=False), None, []
    benchmark, source = open_named(suite.benchmark, suite.data), suite.data.source
    own = source or benchmark.own or parse_benchmark(suite.benchmark).path
    if own is None:
        todo = "give the data's folder with `suite.data.source`"
        if benchmark.hub is None:
            return TaskCount(None), None, [MissingThing(f"no data of {benchmark.name}", todo)]
        if find_spec(HUB) is None:
            what = f"no data: {benchmark.name} is on the hub, and {HUB} is not installed"
            return TaskCount(None), None, [MissingThing(what, f"install it, or {todo}")]
        return TaskCount(None), None, []
    try:
        tasks = read_set(suite)
        return TaskCount(len(tasks.tasks)), tasks, []
    except SourceMissing as error:
        repository = "" if benchmark.hub is None else f" (hub: {benchmark.hub.repository})"
        todo = f"put the benchmark's files there{repository}, or change `suite.data.source`"
        return TaskCount(None), None, [MissingThing(f"no data: {error}", todo)]


def reused_facts(job: AnyJob, base: PlannedBase, catalog: Catalog | None) -> list[PlanFact]:
    """What the store has already of this job: its tasks, and a checkpoint of the same settings.

    That is reused only if its data and the files that it names are the same too, which is known
    when it starts.
    """
    made: list[PlanFact] = []
    if catalog is not None and isinstance(job, PolicyJob) and job.suite.benchmark == STDLIB:
        found = find_made(catalog, job.suite.tasks)
        if found is not None:
            made.append(PlanFact("reused", "task_set", found[0], found[0]))
    trained = None
    if catalog is not None and base.is_here and base.folder is not None:
        trained = _trained(job, base.folder, catalog)
    if trained is not None:
        text = f"{trained}, if its data and files are the same: then nothing is trained"
        made.append(PlanFact("reused", "checkpoint", trained, text))
    return made or [PlanFact("reused", "nothing", True, "nothing of it is in the store")]


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
