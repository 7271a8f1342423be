"""A new set of those tasks of a stored one that a further gate passes.

In: a stored set, the gate's verdict on each of its tasks. Out: an artifact ``task_set:...`` whose
parent is the stored one, with a row of `gate_verdicts` a task and each drop's reason.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tutti.errors import UsageError
from tutti.storage import Catalog, artifact_id, commit_tables, query
from tutti.tasks.synthesis.domains import (
    Domain,
    DomainTask,
    domain_folders,
    read_domain_folder,
    write_domain_folder,
)
from tutti.tasks.synthesis.making.rows import task_rows, verdict_rows, with_task_set
from tutti.tasks.task_sets import Verdict


@dataclass(frozen=True)
class StoredSet:
    """A task set of a domain as it is stored."""

    task_set_id: str
    name: str
    folders: Mapping[Path, tuple[Domain, Sequence[DomainTask]]]

    @property
    def tasks(self) -> list[tuple[Domain, DomainTask]]:
        """All tasks with their domains, in order."""
        return [(domain, task) for domain, tasks in self.folders.values() for task in tasks]


def read_stored_set(task_set: str, catalog: Catalog) -> StoredSet:
    """A set by its id. Raises UsageError where there is none of a domain."""
    known = catalog.artifact(task_set)
    if known is None or known["path"] is None:
        raise UsageError(f"no task set {task_set!r} of a domain; `tutti synth` makes one")
    read = {folder: read_domain_folder(folder) for folder in domain_folders(known["path"])}
    folders = {folder: (domain, list(tasks)) for folder, (domain, tasks) in read.items()}
    return StoredSet(task_set, known["detail"]["name"], folders)


def keep_passed(
    stored: StoredSet,
    gate: str,
    verdicts: Mapping[str, Verdict],
    asked: Mapping[str, Any],
    catalog: Catalog,
) -> str:
    """Make the set of the tasks that passed `gate`; returns its id. `verdicts` are by task id,
    `asked` is all that decided them; its ``request``, if it has one, finds the set again.

    Raises UsageError where none passed, StoreError.
    """
    kept = sorted(task_id for task_id, verdict in verdicts.items() if verdict.passed)
    if not kept:
        reason = next(iter(verdicts.values())).reason
        what = f"{stored.task_set_id}: no task passes {gate}"
        raise UsageError(f"{what}; for example: {reason}")
    made = artifact_id("task_set", [kept, gate, dict(asked)], [stored.task_set_id])
    if catalog.artifact(made) is None:
        out = catalog.home.artifact_folder(made)
        shutil.rmtree(out, ignore_errors=True)  # of one that was killed before it was entered
        for folder, (domain, tasks) in stored.folders.items():
            (out / folder.name).mkdir(parents=True)
            own = [task for task in tasks if verdicts[task.task_id].passed]
            write_domain_folder(out / folder.name, domain, own)
        rows = [_row(task, gate, verdicts[task.task_id]) for _, task in stored.tasks]
        _commit(rows, stored.name, made, catalog)
        detail = {"request": asked.get("request"), "name": stored.name, "accepted": len(kept)}
        detail |= {"candidates": len(verdicts), "asked": {"gate": gate, **asked}}
        catalog.enter_artifact(made, detail, [stored.task_set_id], out)
    return made


def _row(task: DomainTask, gate: str, verdict: Verdict) -> dict[str, Any]:
    found = {"task": task.model_dump(), "task_id": task.task_id, "accepted": verdict.passed}
    return found | {"gates": [gate], "measured": [verdict.measured], "reason": verdict.reason}


def _commit(rows: Sequence[dict[str, Any]], family: str, made: str, catalog: Catalog) -> None:
    count = "select count(*) as n from tasks where task_set_id = $id"
    if not query(count, catalog.home, {"id": made})[0]["n"]:
        tables: dict[str, pa.Table] = {"tasks": task_rows(rows, family)}
        tables["gate_verdicts"] = verdict_rows(rows)
        commit_tables(catalog, {n: with_task_set(t, made) for n, t in tables.items()})
