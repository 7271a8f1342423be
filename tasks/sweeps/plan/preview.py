"""What a suite would do, without starting anything: ``tutti sweep plan``."""

from pathlib import Path

from tutti.storage import Catalog, open_catalog
from tutti.tasks.retrieval import read_manifest
from tutti.tasks.serving import pick_models
from tutti.tasks.serving.engines import engine_lines
from tutti.tasks.sweeps.plan.config import check_models, serving_of
from tutti.tasks.sweeps.plan.estimate import PlanEstimate, outlook_of
from tutti.tasks.sweeps.plan.library import find_index, named_index
from tutti.tasks.sweeps.plan.plan import plan_of
from tutti.tasks.sweeps.plan.roles import other_models
from tutti.tasks.sweeps.plan.task_set import TaskSet, made_tasks, read_set
from tutti.tasks.sweeps.spec import STDLIB, Suite, SuiteError, parts
from tutti.tasks.synthesis import find_made


def outlook(suite: Suite, models: Path) -> tuple[PlanEstimate, ...]:
    """What running `suite` now would do: one for each of its benchmarks and models.

    Raises RegistryError, BenchmarkError, and SuiteError where its tasks are yet to be made.
    """
    every = parts(suite)
    check_models(pick_models(models, dict.fromkeys(part.model for part in every)))
    with open_catalog() as catalog:
        return tuple(_outlook_of_part(part, suite, models, catalog) for part in every)


def engines_of(suite: Suite, models: Path) -> dict[str, str]:
    """A line for each engine that the suite needs: its server, device, parsers, fit, and GPUs.

    Nothing is started. Raises RegistryError where engines that run at the same time do not fit, or
    a command is refused.
    """
    lines: dict[str, str] = {}
    with open_catalog() as catalog:
        for part in parts(suite):
            entries = pick_models(models, (part.model, *other_models(part)))
            lines |= engine_lines(serving_of(entries, catalog, part.execution.engines).started)
    return lines


def _outlook_of_part(part: Suite, whole: Suite, models: Path, catalog: Catalog) -> PlanEstimate:
    entries = pick_models(models, (part.model, *other_models(part)))
    serving = serving_of(entries, catalog, part.execution.engines)
    task_set, index_id = _tasks(part, catalog)
    plan = plan_of(part, serving.config(part, task_set, index_id), whole)
    return outlook_of(plan, catalog)


def _tasks(suite: Suite, catalog: Catalog) -> tuple[TaskSet, str | None]:
    """What the suite measures, and the index that it searches."""
    if suite.benchmark != STDLIB:
        named = named_index(suite)
        index_id = named and read_manifest(find_index(named, catalog))["index_id"]
        return read_set(suite), index_id
    found = find_made(catalog, suite.tasks)
    if found is None:
        raise SuiteError(
            "tasks: the suite's task set is not made yet, so nothing is known of its cells; "
            "`tutti sweep run` makes it, and so does `tutti synth` with its numbers"
        )
    return made_tasks(found[0], catalog, suite.data.split), found[1]
