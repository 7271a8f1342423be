"""What a training job would do, without starting anything: ``tutti train plan``.

In: a job's file, of either kind, the registry, the store. Out: a `JobPlan`: base, memory, steps,
attempts, tokens, objective, reward, models, GPUs, what is reused, and what this machine lacks.
Nothing is written, no engine is started and no data are downloaded.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from tutti.storage import Catalog, Home, open_catalog
from tutti.tasks.config import read_document
from tutti.tasks.gpus import GpuClaim, GpuError, candidates, read_inventory
from tutti.tasks.serving import Model, ModelsEnvironmentMissing, read_registry
from tutti.tasks.serving.engines import models_python
from tutti.tasks.serving.metering import find_price, read_price_book
from tutti.tasks.training.job import JobError, TrainJob, read_job
from tutti.tasks.training.plan_base import (
    AnyJob,
    PlannedBase,
    check_memory,
    check_served,
    plan_memory,
    planned_base,
)
from tutti.tasks.training.plan_data import (
    plan_objective,
    plan_reuse,
    plan_rollouts,
    plan_set,
    plan_tasks,
)
from tutti.tasks.training.plan_facts import JobPlan
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
