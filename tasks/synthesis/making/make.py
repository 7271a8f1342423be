"""A set of domain tasks: instances until there are enough tasks, then rows and an artifact.

In: a request. Out: an artifact ``task_set:...``: a folder per instance, and rows of `tasks` and
`gate_verdicts` for every candidate. The same request gives the same bytes.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tutti.storage import Catalog, artifact_id, commit_tables, held, query
from tutti.tasks.synthesis.domains import read_domain_folder, write_domain_folder
from tutti.tasks.synthesis.generate import find_task_set
from tutti.tasks.synthesis.making.instance import read_judged
from tutti.tasks.synthesis.making.request import DomainRequest, NothingMade
from tutti.tasks.synthesis.making.rows import task_rows, verdict_rows, with_task_set
from tutti.tasks.synthesis.making.workers import instance_folder, instances

MOST_INSTANCES = 20
"""As many times the instances that would do if every candidate passed, before it is given up."""
COUNT = "select count(*) as n from tasks where task_set_id = $id"
Show = Callable[[int, int, str], None]
"""(tasks that passed, wanted, what to say)."""


@dataclass
class _Made:
    """What is made so far."""

    request: DomainRequest
    folder: Path
    """Of the set."""
    accepted: list[str] = field(default_factory=list)
    domains: list[str] = field(default_factory=list)
    candidates: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    """By gate."""
    tasks: list[pa.Table] = field(default_factory=list)
    verdicts: list[pa.Table] = field(default_factory=list)

    def take(self, instance: Path, number: int) -> None:
        """Copy an instance's tasks into the set, as many as are still wanted."""
        domain, tasks = read_domain_folder(instance)
        kept = list(tasks)[: self.request.size - len(self.accepted)]
        out = self.folder / f"{domain.name}-{number:04}"
        out.mkdir(parents=True, exist_ok=True)
        write_domain_folder(out, domain, kept)
        rows = list(read_judged(instance, kept[-1].task_id if kept else None))
        self.accepted += [each.task_id for each in kept]
        self.domains.append(domain.domain_id)
        self.candidates += len(rows)
        self.dropped.update(row["gates"][-1] for row in rows if not row["accepted"])
        self.tasks.append(task_rows(rows, domain.name))
        self.verdicts.append(verdict_rows(rows))

    def drops(self) -> str:
        """The gates that dropped most, for people."""
        return ", ".join(f"{gate} {n}" for gate, n in self.dropped.most_common(3)) or "no drops"


def make_domain_set(
    request: DomainRequest,
    catalog: Catalog,
    benchmarks: Sequence[str] = (),
    show: Show = lambda done, total, note: None,
) -> str:
    """Make the set, or find an existing one; returns its id.

    `benchmarks`: questions that no task may repeat. A run that was killed goes on. Raises
    NothingMade, ToolkitFailed, StoreError.
    """
    known = find_task_set(catalog, request.request_hash)
    if known is not None:
        return known
    work = catalog.home.artifacts / f"task_set-{request.request_hash}.work"
    with held(catalog, f"synthesizing {request.request_hash}"):  # two would write one folder
        shutil.rmtree(work / "set", ignore_errors=True)
        made = _collect(request, work, benchmarks, show)
        task_set_id = _enter(made, catalog, len(benchmarks))
        shutil.rmtree(work)
    return task_set_id


def _collect(request: DomainRequest, work: Path, benchmarks: Sequence[str], show: Show) -> _Made:
    made = _Made(request, work / "set")
    most = MOST_INSTANCES * (1 + request.size // request.instance_tasks)
    with closing(instances(request, work, benchmarks)) as coming:
        for number in coming:
            made.take(instance_folder(work, number), number)
            show(len(made.accepted), request.size, made.drops())
            if len(made.accepted) == request.size:
                return made
            if not made.accepted or number + 1 == most:
                break
    raise NothingMade(
        f"{request.domain}: {len(made.accepted)} of {request.size} tasks passed the gates, of "
        f"{made.candidates} candidates over {number + 1} databases; dropped by {made.drops()}"
    )


def _enter(made: _Made, catalog: Catalog, compared: int) -> str:
    """Commit the rows and enter the artifact; one killed in between enters the same again."""
    request = made.request
    task_set_id = artifact_id("task_set", {"tasks": made.accepted, "domains": made.domains})
    detail: dict[str, Any] = {"request": request.request_hash, "name": request.domain}
    detail |= {"asked": request.as_asked, "accepted": len(made.accepted)}
    detail |= {"candidates": made.candidates, "dropped": dict(made.dropped)}
    detail |= {"compared_with": compared}
    (made.folder / "set.json").write_text(json.dumps(detail, indent=1, sort_keys=True) + "\n")
    out = catalog.home.artifact_folder(task_set_id)
    if catalog.artifact(task_set_id) is None:  # another request may have made the same tasks
        shutil.rmtree(out, ignore_errors=True)
        made.folder.rename(out)
        if not query(COUNT, catalog.home, {"id": task_set_id})[0]["n"]:
            tables = {"tasks": made.tasks, "gate_verdicts": made.verdicts}
            commit_tables(
                catalog,
                {n: with_task_set(pa.concat_tables(t), task_set_id) for n, t in tables.items()},
            )
    catalog.enter_artifact(task_set_id, detail, (), out)
    return task_set_id
