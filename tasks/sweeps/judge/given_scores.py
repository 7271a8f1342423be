"""Sweeps whose scores came with their attempts: from a harness's own package, or from an import.

In: a sweep's suite and its task sets. Out: for each such task set why `tutti score` leaves its
scores as they are, and what to do instead. The store does not have what such a score was made of:
the databases and assertions of a package, or another program's targets.
"""

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from tutti.storage import Catalog
from tutti.storage import catalog as cat
from tutti.tasks.agents import shipped_harness
from tutti.tasks.benchmarks import BENCHMARKS

IMPORTED = "imported"
"""The scorer that takes what a harness says."""
INSTEAD = {
    "tau2": 'to have tau2 score dialogues again, measure with `harness.command: "{tau2} --save '
    "FOLDER\"` and run `tau2 evaluate-trajs FOLDER`; `--scorer tool_calls` compares the agent's "
    "calls with the gold ones",
    "bfcl": "for scores of another version of the package, measure under another `name`",
}
"""What to do, by a harness's name."""


def came_with(catalog: Catalog, sweep_id: str) -> dict[str, str]:
    """By id, the task sets of a sweep whose scores are not made again from the store, and why."""
    sweeps, cells = cat.sweeps, cat.cells
    specs = catalog.rows(sa.select(sweeps.c.spec).where(sweeps.c.sweep_id == sweep_id))
    spec: dict[str, Any] = next((json.loads(row["spec"] or "{}") for row in specs), {})
    found = {}
    query = sa.select(cells.c.task_set_id).where(cells.c.sweep_id == sweep_id).distinct()
    for row in catalog.rows(query):
        artifact = catalog.artifact(row["task_set_id"])
        why = None if artifact is None else _why(artifact["detail"], spec)
        if why is not None:
            found[row["task_set_id"]] = why
    return found


def _why(detail: Mapping[str, Any], spec: Mapping[str, Any]) -> str | None:
    """None where tutti's scorer made the scores."""
    if "imported" in detail:
        return (
            f"these scores were imported ({detail['imported']}), without the tasks' targets, and "
            "stay as they are; `--labels` compares them with people's"
        )
    name = str(detail.get("benchmark", ""))
    harness = shipped_harness(command_of(name, spec))
    if harness is not None:
        return (
            f"{name}: the package of {harness.name} scored the attempts when they were made, and "
            f"its scores stay as they are; {INSTEAD[harness.name]}"
        )
    if detail.get("scorer") == IMPORTED:
        return f"{name}: the harness scored its attempts itself, and its scores stay as they are"
    return None


def command_of(benchmark: str, spec: Mapping[str, Any]) -> str | None:
    """The command that made the attempts at a benchmark of the suite; None: tutti's agent."""
    group = spec.get("harness")
    given = group.get("command") if isinstance(group, Mapping) else spec.get("command")
    own = BENCHMARKS[benchmark].command if benchmark in BENCHMARKS else None
    return given if isinstance(given, str) else own
