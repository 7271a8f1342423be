"""A set of domain tasks: instances until there are enough tasks, then rows and an artifact.

In: a request. Out: an artifact ``task_set:...``: a folder per instance, and rows of `tasks` and
`gate_verdicts` for every candidate. The same request gives the same bytes.
"""

import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tutti.storage import Catalog, held
from tutti.tasks.synthesis.generate import find_task_set
from tutti.tasks.synthesis.making.collected import Collected
from tutti.tasks.synthesis.making.request import DomainRequest, NothingMade
from tutti.tasks.synthesis.making.workers import instance_folder, instances

MOST_INSTANCES = 20
"""As many times the instances that would do if every candidate passed, before it is given up."""
Show = Callable[[int, int, str], None]
"""(tasks that passed, wanted, what to say)."""


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
    work = work_folder(catalog, request.request_hash)
    with held(catalog, f"synthesizing {request.request_hash}"):  # two would write one folder
        shutil.rmtree(work / "set", ignore_errors=True)
        made = _collect(request, work, benchmarks, show)
        named: dict[str, Any] = {"request": request.request_hash, "name": request.domain}
        named |= {"asked": request.as_asked, "compared_with": len(benchmarks)}
        task_set_id = made.enter(named, catalog)
        shutil.rmtree(work)
    return task_set_id


def work_folder(catalog: Catalog, request_hash: str) -> Path:
    """Where a set lies until it is whole."""
    return catalog.home.artifacts / f"task_set-{request_hash}.work"


def _collect(
    request: DomainRequest, work: Path, benchmarks: Sequence[str], show: Show
) -> Collected:
    made = Collected(request.size, work / "set")
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
