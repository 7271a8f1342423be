"""What the store has to score an attempt again: why a score stays as it is, and final states.

Scores that came with their attempts, from a harness's own package or from an import, stay: the
store does not have what they were made of (`came_with` says what to do instead). A final state is
not stored. Of a synthesized domain it comes from carrying out the attempt's stored calls once more
(`EndStates`); of other worlds nothing on record says it.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tutti.errors import UsageError
from tutti.storage import Catalog
from tutti.storage import catalog as cat
from tutti.tasks.agents.commands import shipped_harness
from tutti.tasks.benchmarks import BENCHMARKS, parse_benchmark
from tutti.tasks.scoring import Scorer, ScorerFailed
from tutti.tasks.sweeps.spec import is_domain
from tutti.tasks.synthesis import (
    Domain,
    DomainSpec,
    DomainTask,
    StoredCall,
    domain_folders,
    end_state,
    read_domain_folder,
    stored_calls,
)

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


COMPARE_STATES = frozenset({"dialogue", "state"})
"""Scorers that cannot score without one."""


class EndStates:
    """The final states of one sweep's attempts, where a scorer compares states."""

    def __init__(self, sweep_id: str, attempts: Sequence[str], catalog: Catalog) -> None:
        self._domains = _domains(sweep_id, catalog)
        self._calls: Mapping[str, Sequence[StoredCall] | None] = (
            stored_calls(attempts, catalog.home) if attempts else {}
        )

    async def of(
        self, attempt_id: str, target: Mapping[str, Any], scorer: Scorer
    ) -> Mapping[str, Any] | None:
        """The state that an attempt left; None for a scorer that compares none. Raises ScorerFailed
        with what is missing."""
        if scorer.name not in COMPARE_STATES:
            return None
        if "domain" not in target:
            raise ScorerFailed(
                f"{scorer.name}: an attempt's final state is not stored, and this benchmark's "
                "world cannot be brought to it again; run the sweep anew"
            )
        domain = self._domains.get(target["domain"])
        if domain is None:
            raise ScorerFailed(
                f"{scorer.name}: the domain {target['domain']}, which the attempt was about, is "
                "no longer in the folder or task set that was measured; put it back"
            )
        task = DomainTask(world=DomainSpec.model_validate(target["world"]))
        found = await end_state(domain, task, self._calls[attempt_id])
        if found.fault:
            raise ScorerFailed(f"{scorer.name}: its final state is not known: {found.fault}")
        return {"db": found.db}


def _domains(sweep_id: str, catalog: Catalog) -> dict[str, Domain]:
    """By id, the domains that a sweep measured, as far as they are there."""
    folders = (folder for name in _benchmarks(sweep_id, catalog) for folder in _of(name, catalog))
    found = [read_domain_folder(folder)[0] for folder in folders]
    return {domain.domain_id: domain for domain in found}


def _benchmarks(sweep_id: str, catalog: Catalog) -> list[str]:
    sweeps = cat.sweeps
    (row,) = catalog.rows(sa.select(sweeps.c.spec).where(sweeps.c.sweep_id == sweep_id))
    spec = json.loads(row["spec"] or "{}")
    names = spec.get("benchmarks") or [spec.get("benchmark")]
    return [name for name in names if name is not None and is_domain(name)]


def _of(benchmark: str, catalog: Catalog) -> list[Path]:
    choice = parse_benchmark(benchmark)
    folder = choice.path
    if choice.task_set is not None:
        entry = catalog.artifact(choice.task_set)
        folder = None if entry is None else entry["path"]
    try:
        return [] if folder is None else domain_folders(Path(folder))
    except UsageError:
        return []  # `EndStates.of` says so where one of them is needed
