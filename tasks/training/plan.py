"""What a training job would do, without starting anything: ``tutti train plan``.

In: a job's file, of either kind, the registry, the store. Out: a `JobPlan`: base, memory, steps,
attempts, tokens, objective, reward, models, GPUs, what is reused, and what this machine lacks.
Nothing is written, no engine is started and no data are downloaded.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tutti.storage import Catalog, Home, open_catalog
from tutti.tasks.config import read_document
from tutti.tasks.gpus import Gpu, GpuClaim, GpuError, candidates, read_inventory
from tutti.tasks.serving import (
    Model,
    ModelsEnvironmentMissing,
    models_python,
    read_registry,
)
from tutti.tasks.serving.metering import find_price, read_price_book
from tutti.tasks.training.job import JobError, TrainJob, read_job
from tutti.tasks.training.plan_base import (
    AnyJob,
    PlannedBase,
    memory_shortage,
    missing_weights,
    planned_base,
    trained_facts,
)
from tutti.tasks.training.plan_data import planned_set, planned_tasks, reused_facts
from tutti.tasks.training.plan_facts import JobPlan, MissingThing, PlanFact
from tutti.tasks.training.plan_work import objective_facts, reward_facts, rollout_facts
from tutti.tasks.training.policy.job import PolicyJob, read_policy_job

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
    base = planned_base(job, entries, models)
    trained, missing = trained_facts(job, base)
    facts, missing = [*base.facts, *trained], [*base.missing, *missing]
    with _store(home) as catalog:
        if isinstance(job, TrainJob):
            data = planned_set(job, home, catalog)
        else:
            facts += rollout_facts(job, base.entry)
            data = planned_tasks(job, catalog)
        facts += data.facts
        missing += data.missing
        reused = reused_facts(job, base, catalog)
    facts += objective_facts(job)
    if isinstance(job, PolicyJob):
        facts += reward_facts(job)
        missing += _unpriced(job, entries, models)
    others, without = _others(job, base, entries, models)
    cards, short = _gpus(job, base, entries, home)
    facts += [*others, *cards, *reused]
    missing += [*without, *short, *_machine(job, trained, home)]
    return JobPlan(job.name, "sft" if isinstance(job, TrainJob) else "policy", facts, missing)


@contextmanager
def _store(home: Home) -> Iterator[Catalog | None]:
    """The catalog; None where there is none yet, because opening it would create it."""
    if not (home.catalog_file.exists() or os.environ.get("TUTTI_CATALOG_URL")):
        yield None
        return
    with open_catalog(home) as catalog:
        yield catalog


def _others(
    job: AnyJob, base: PlannedBase, entries: Mapping[str, Model], registry: Path
) -> tuple[list[PlanFact], list[MissingThing]]:
    """The models that a job needs besides its base."""
    names = job.others if isinstance(job, PolicyJob) else ()
    facts, missing = [], list[MissingThing]()
    for name in names:
        entry = entries.get(name)
        where = "no such entry" if entry is None else str(entry.endpoint or entry.checkpoint)
        facts.append(PlanFact("models", name, None if entry is None else where, where))
        if entry is None:
            missing.append(MissingThing(f"no entry {name!r} in {registry}", "add the model"))
        else:
            missing += _absent(name, entry)
    if base.entry is not None and base.entry.engine is None and isinstance(job, PolicyJob):
        what = f"{base.name} has no `engine` in {registry}"
        missing.append(MissingThing(what, "add one: tutti serves the policy while it trains"))
    return facts or [PlanFact("models", "others", [], "none")], missing


def _absent(name: str, entry: Model) -> list[MissingThing]:
    if entry.checkpoint is not None:
        return missing_weights(name, entry)
    key = entry.api_key_env
    if entry.endpoint is not None and key is not None and not os.environ.get(key):
        return [MissingThing(f"no key of {name}: {key} is not set", f"export {key}")]
    return []


def _unpriced(
    job: PolicyJob, entries: Mapping[str, Model], registry: Path
) -> Iterator[MissingThing]:
    """Models without a price, where the preference weighs cost: a reward would end with an
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
            yield MissingThing(what, f"state `prices` in its entry of {registry}")


def _gpus(
    job: AnyJob, base: PlannedBase, entries: Mapping[str, Model], home: Home
) -> tuple[list[PlanFact], list[MissingThing]]:
    """The cards of the trainer and of each engine that is started, and those that are not here."""
    wanted = {"trainer": GpuClaim(job.gpus)}
    if isinstance(job, PolicyJob):
        started = [(base.name, base.entry), *((name, entries.get(name)) for name in job.others)]
        for name, entry in started:
            if entry is not None and entry.engine is not None and entry.engine.gpus is not None:
                wanted[f"engine {name}"] = GpuClaim(entry.engine.gpus)
    facts, missing = [], []
    for who, claim in wanted.items():
        try:
            cards, count = candidates(claim, read_inventory(home))
        except GpuError as error:
            facts.append(PlanFact("gpus", who, claim.wanted, f"{claim.wanted}: not here"))
            todo = "use a machine that has them, or change `gpus` of the job or the entry"
            missing.append(MissingThing(f"{who}: {error}", todo))
            continue
        some = " of ".join([str(count), ", ".join(f"gpu {card.index}" for card in cards)])
        text = some if count else "none: the CPU"
        facts.append(PlanFact("gpus", who, count, text))
    return facts, missing


def _machine(job: AnyJob, trained: list[PlanFact], home: Home) -> list[MissingThing]:
    """The environment of the trainer, and the memory of its first card."""
    missing = []
    try:
        models_python()
    except ModelsEnvironmentMissing as error:
        missing.append(MissingThing("no models environment", str(error)))
    try:
        cards, count = candidates(GpuClaim(job.gpus), read_inventory(home))
    except GpuError:
        return missing  # told already
    card: Gpu | None = cards[0] if count else None
    return missing + memory_shortage(trained, card)
