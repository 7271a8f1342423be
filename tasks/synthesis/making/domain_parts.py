"""What all sources of domain tasks share: parts and sets are folders of domains and their tasks.

`KeptSource` keeps those tasks of a stored set that a further gate passes.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tutti.errors import UsageError
from tutti.storage import Catalog, content_hash
from tutti.tasks.synthesis.domains import (
    DOMAIN_TASK,
    Domain,
    DomainTask,
    copy_domain_folder,
    domain_folders,
    read_domain_folder,
    write_domain_folder,
)
from tutti.tasks.synthesis.gating import GATES
from tutti.tasks.task_sets import Judged, SetInMaking, Source, Verdict, write_part


def write_domain_part(folder: Path, domain: Domain, judged: Sequence[Judged[DomainTask]]) -> Path:
    """Write candidates, and the domain with those that passed; returns the folder."""
    assert all(each.task.world.domain == domain.domain_id for each in judged), "of another database"
    accepted = [each.task for each in judged if each.reason is None]
    return write_part(
        folder,
        judged,
        lambda temporary: write_domain_folder(temporary, domain, accepted),
    )


def stored_folders(catalog: Catalog, task_set: str) -> list[Path]:
    """The folders of a stored set's databases. Raises UsageError where there is none of a
    domain."""
    known = catalog.artifact(task_set)
    if known is None or known["path"] is None:
        raise UsageError(f"no task set {task_set!r} of a domain; `tutti synth` makes one")
    return domain_folders(Path(known["path"]))


class DomainParts(Source):
    """A source of domain tasks but for its parts; `name` is the domain's."""

    name: str
    gates: Sequence[str] = tuple(GATES)
    task_type = DOMAIN_TASK

    def write(self, made: SetInMaking, folder: Path) -> Any:
        """A folder a database; the id is of the tasks and the databases."""
        domains = []
        for number, part in enumerate(made.parts):
            domain, _ = read_domain_folder(part.folder)
            copy_domain_folder(part.folder, folder / f"{domain.name}-{number:04}", part.accepted)
            domains.append(domain.domain_id)
        return {"tasks": made.accepted, "domains": domains}


class KeptSource(DomainParts):
    """The set's tasks with the verdicts of `gate`; a subclass finds them."""

    gate: str

    def __init__(self, task_set: str, request: BaseModel, catalog: Catalog) -> None:
        """Raises UsageError where there is no such set of a domain."""
        self._request = request
        self.work_name = content_hash([self.gate, request.model_dump()])
        self.parents, self.gates = [task_set], (*GATES, self.gate)
        self.stored: list[tuple[Domain, list[DomainTask]]] = [
            (domain, list(tasks))
            for domain, tasks in map(read_domain_folder, stored_folders(catalog, task_set))
        ]
        self.name = self.stored[0][0].name
        self._reasons: list[str] = []

    @property
    def tasks(self) -> list[tuple[Domain, DomainTask]]:
        """All tasks with their domains, in order."""
        return [(domain, task) for domain, tasks in self.stored for task in tasks]

    async def verdicts(self, work: Path) -> Mapping[str, Verdict]:
        """The gate's verdict on each task, by its id."""
        raise NotImplementedError

    def asked(self) -> dict[str, Any]:
        """All that decided the verdicts."""
        return self._request.model_dump()

    async def parts(self, work: Path, made: SetInMaking) -> AsyncGenerator[Path, None]:
        """A database each."""
        verdicts = await self.verdicts(work)
        self._reasons = [each.reason for each in verdicts.values() if not each.passed]
        for number, (domain, tasks) in enumerate(self.stored):
            judged = [Judged(task) for task in tasks]
            for each in judged:
                each.note(self.gate, verdicts[each.task.task_id])
            yield write_domain_part(work / f"kept-{number:04}", domain, judged)

    def write(self, made: SetInMaking, folder: Path) -> Any:
        """As of every domain's set; the id is of the gate and what it asked, too."""
        super().write(made, folder)
        return [sorted(made.accepted), self.gate, self.asked()]

    def detail(self, made: SetInMaking) -> dict[str, Any]:
        """The gate and what it asked."""
        return {"name": self.name, "asked": {"gate": self.gate, **self.asked()}}

    def too_few(self, made: SetInMaking) -> str:
        """One reason."""
        what = f"{self.parents[0]}: no task passes {self.gate}"
        return f"{what}; for example: {self._reasons[0]}"
