"""The gate pass@k: of a measured set, the tasks that are neither too hard nor too easy.

In: a task set, and attempts at its tasks in the store (`tutti run --benchmark task_set:ID`). Out: a
new task set of those whose pass@k lies in a band; each of the others has its reason.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from tutti.errors import UsageError
from tutti.storage import Catalog, artifact_id, commit_tables, query
from tutti.tasks.synthesis.domains import read_domain_folder, write_domain_folder
from tutti.tasks.synthesis.domains.folder import domain_folders
from tutti.tasks.synthesis.gating.gate import Verdict
from tutti.tasks.synthesis.making.rows import task_rows, verdict_rows, with_task_set

GATE = "pass_at_k"
# A benchmark's item is a task of its own in the store; its slots have the synthesized task's id.
MEASURED_SQL = """
select t.slots ->> 'id' as task_id, count(*) as n, count(*) filter (a.correct) as solved
from attempts a join tasks t on t.task_id = a.task_id and t.template is null
where a.status in ('ok', 'limit', 'model_error') and t.slots ->> 'id' in (select unnest($ids))
    and ($models is null or a.model in (select unnest($models)))
group by all
"""


class BandRequest(BaseModel):
    """Which tasks of a measured set to keep."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task_set: str = Field(description="the set, by its id")
    low: float = Field(0.1, ge=0.0, le=1.0, description="least pass@k")
    high: float = Field(0.9, ge=0.0, le=1.0, description="largest pass@k")
    k: int = Field(1, ge=1, le=256, description="attempts, one of which must solve it")
    models: tuple[str, ...] = Field((), description="whose attempts count; empty: everybody's")


@dataclass(frozen=True)
class Rate:
    """Attempts at a task."""

    n: int
    solved: int


def pass_at_k(rate: Rate, k: int) -> float:
    """The chance that one of k attempts solves it: 1 - C(n-c, k) / C(n, k), unbiased for n >= k
    (Chen et al. 2021, arXiv 2107.03374)."""
    return 1.0 - comb(rate.n - rate.solved, k) / comb(rate.n, k)


def judged(rate: Rate | None, request: BandRequest) -> Verdict:
    """The gate's verdict on a task."""
    if rate is None or rate.n < request.k:
        made = 0 if rate is None else rate.n
        return Verdict(False, f"{made} attempts on record; pass@{request.k} needs {request.k}")
    found = pass_at_k(rate, request.k)
    if request.low <= found <= request.high:
        return Verdict(True, measured=found)
    what = f"pass@{request.k} is {found:.2f} ({rate.solved} of {rate.n} attempts solved it)"
    return Verdict(False, f"{what}, not {request.low:g} to {request.high:g}", found)


def keep_in_band(request: BandRequest, catalog: Catalog) -> str:
    """Make the set of the tasks in the band; returns its id. Raises UsageError, StoreError."""
    known = catalog.artifact(request.task_set)
    if known is None or known["path"] is None:
        raise UsageError(f"no task set {request.task_set!r} of a domain; `tutti synth` makes one")
    folders = {folder: read_domain_folder(folder) for folder in domain_folders(known["path"])}
    every = {folder: list(tasks) for folder, (_, tasks) in folders.items()}
    ids = [task.task_id for tasks in every.values() for task in tasks]
    rates = measured_rates(ids, request.models, catalog)
    verdicts = {
        task.task_id: judged(rates.get(task.task_id), request)
        for tasks in every.values()
        for task in tasks
    }
    kept = sorted(task_id for task_id, verdict in verdicts.items() if verdict.passed)
    if not kept:
        reason = next(iter(verdicts.values())).reason
        raise UsageError(f"{request.task_set}: no task is in the band; for example: {reason}")
    made = artifact_id("task_set", {"tasks": kept}, [request.task_set])
    out = catalog.home.artifact_folder(made)
    if catalog.artifact(made) is None:
        shutil.rmtree(out, ignore_errors=True)  # of one that was killed before it was entered
        for folder, (domain, _) in folders.items():
            (out / folder.name).mkdir(parents=True)
            own = [task for task in every[folder] if verdicts[task.task_id].passed]
            write_domain_folder(out / folder.name, domain, own)
        rows = [
            _row(task.model_dump(), task.task_id, verdicts)
            for tasks in every.values()
            for task in tasks
        ]
        _commit(rows, known["detail"]["name"], made, catalog)
        detail = {"request": None, "name": known["detail"]["name"], "accepted": len(kept)}
        detail |= {"candidates": len(verdicts), "asked": request.model_dump()}
        catalog.enter_artifact(made, detail, [request.task_set], out)
    return made


def measured_rates(ids: Sequence[str], models: Sequence[str], catalog: Catalog) -> dict[str, Rate]:
    """The attempts on record of tasks, by task id; of all models where none is named."""
    given = {"ids": list(ids), "models": list(models) or None}
    rows = query(MEASURED_SQL, catalog.home, given)
    return {row["task_id"]: Rate(row["n"], row["solved"]) for row in rows}


def _row(task: dict[str, Any], task_id: str, verdicts: Mapping[str, Verdict]) -> dict[str, Any]:
    verdict = verdicts[task_id]
    found = {"task": task, "task_id": task_id, "accepted": verdict.passed, "gates": [GATE]}
    return found | {"measured": [verdict.measured], "reason": verdict.reason}


def _commit(rows: Sequence[dict[str, Any]], family: str, made: str, catalog: Catalog) -> None:
    count = "select count(*) as n from tasks where task_set_id = $id"
    if not query(count, catalog.home, {"id": made})[0]["n"]:
        tables: dict[str, pa.Table] = {"tasks": task_rows(rows, family)}
        tables["gate_verdicts"] = verdict_rows(rows)
        commit_tables(catalog, {n: with_task_set(t, made) for n, t in tables.items()})
