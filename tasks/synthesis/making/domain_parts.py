"""Sources of domain tasks: a set has one folder per database, with its domain and tasks.

`KeptSource` selects those tasks of a stored set that a further gate accepts.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from tutti.errors import UsageError
from tutti.storage import Catalog, content_hash
from tutti.tasks.synthesis.domains import (
    DOMAIN_TASK,
    Domain,
    DomainTask,
    domain_folders,
    read_domain_folder,
    write_domain_folder,
)
from tutti.tasks.synthesis.gating import GATES
from tutti.tasks.task_sets import Judged, SetInMaking, Source, Verdict, write_part


def write_domain_part(folder: Path, domain: Domain, judged: Sequence[Judged[DomainTask]]) -> Path:
    """Write candidates, and the domain with the accepted ones; return the folder."""
    assert all(each.task.world.domain == domain.domain_id for each in judged), "of another database"
    accepted = [each.task for each in judged if each.reason is None]
    return write_part(
        folder,
        judged,
        lambda temporary: write_domain_folder(temporary, domain, accepted),
    )


def stored_folders(catalog: Catalog, task_set: str) -> list[Path]:
    """The folders of a stored set's databases. Raises UsageError for a set without a domain."""
    known = catalog.artifact(task_set)
    if known is None or known["path"] is None:
        raise UsageError(f"no task set {task_set!r} of a domain; `tutti synth` makes one")
    return domain_folders(Path(known["path"]))


class DomainParts(Source):
    """A source of domain tasks without its parts; `name` is the domain's."""

    name: str
    gates: Sequence[str] = tuple(GATES)
    task_type = DOMAIN_TASK

    def write(self, made: SetInMaking, folder: Path) -> Any:
        """Write one folder per database; the id depends on the tasks and the databases."""
        domains = []
        for number, part in enumerate(made.parts):
            domain, tasks = read_domain_folder(part.folder)
            out = folder / f"{domain.name}-{number:04}"
            write_domain_folder(out, domain, islice(tasks, part.accepted))
            domains.append(domain.domain_id)
        return {"tasks": made.accepted, "domains": domains}


class Selection(Protocol):
    """A request that selects tasks of a set."""

    @property
    def task_set(self) -> str:
        """The set's id."""
        ...

    def model_dump(self) -> dict[str, Any]:
        """Return all fields."""
        ...


R = TypeVar("R", bound=Selection)


class KeptSource(DomainParts, Generic[R]):
    """The tasks of a request's `task_set` that a gate accepts; a subclass computes the verdicts."""

    gate: str

    def __init__(self, request: R, catalog: Catalog) -> None:
        """Raises UsageError if there is no such set of a domain."""
        self.request, self.home = request, catalog.home
        self.work_name = content_hash([self.gate, request.model_dump()])
        self.parents, self.gates = [request.task_set], (*GATES, self.gate)
        folders = stored_folders(catalog, request.task_set)
        self.stored: list[tuple[Domain, list[DomainTask]]] = [
            (domain, list(tasks)) for domain, tasks in map(read_domain_folder, folders)
        ]
        self.name = self.stored[0][0].name
        self._reasons: list[str] = []

    @property
    def tasks(self) -> list[tuple[Domain, DomainTask]]:
        """Return all tasks with their domains, in order."""
        return [(domain, task) for domain, tasks in self.stored for task in tasks]

    async def verdicts(self, work: Path) -> Mapping[str, Verdict]:
        """Return the gate's verdict on each task, by its id."""
        raise NotImplementedError

    def asked(self) -> dict[str, Any]:
        """Return everything that determines the verdicts."""
        return self.request.model_dump()

    async def parts(self, work: Path, made: SetInMaking) -> AsyncGenerator[Path, None]:
        """Yield a part for each database."""
        verdicts = await self.verdicts(work)
        self._reasons = [each.reason for each in verdicts.values() if not each.passed]
        for number, (domain, tasks) in enumerate(self.stored):
            judged = [Judged(task) for task in tasks]
            for each in judged:
                each.note(self.gate, verdicts[each.task.task_id])
            yield write_domain_part(work / f"kept-{number:04}", domain, judged)

    def write(self, made: SetInMaking, folder: Path) -> Any:
        """Write the files; the id is of the tasks, the gate and its request."""
        super().write(made, folder)
        return [sorted(made.accepted), self.gate, self.asked()]

    def detail(self, made: SetInMaking) -> dict[str, Any]:
        """The gate and its request."""
        return {"name": self.name, "asked": {"gate": self.gate, **self.asked()}}

    def too_few(self, made: SetInMaking) -> str:
        """Return the gate and one of its reasons, as text."""
        what = f"{self.parents[0]}: no task passes {self.gate}"
        return f"{what}; for example: {self._reasons[0]}"
