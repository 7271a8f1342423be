"""What all sources of domain tasks share: parts and sets are folders of domains and their tasks."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tutti.errors import UsageError
from tutti.storage import Catalog
from tutti.tasks.synthesis.domains import (
    Domain,
    DomainTask,
    copy_domain_folder,
    domain_folders,
    read_domain_folder,
    write_domain_folder,
)
from tutti.tasks.synthesis.gating import GATES
from tutti.tasks.task_sets import Judged, Row, SetInMaking, Source, write_part


def write_domain_part(folder: Path, domain: Domain, judged: Sequence[Judged[DomainTask]]) -> Path:
    """Write candidates, and the domain with those that passed; returns the folder."""
    accepted = [each.task for each in judged if each.reason is None]
    return write_part(
        folder,
        judged,
        lambda task: json.dumps({"family": domain.name, **task.model_dump(mode="json")}),
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

    def columns(self, row: Row) -> dict[str, Any]:
        """Of a task of the domain."""
        given = dict(row["task"])
        family, task = given.pop("family"), DomainTask.model_validate(given)
        return {
            "family": family,
            "template": task.template,
            "split": task.split,
            "question": task.question,
            "answer": "; ".join(task.communicate),
            "slots": json.dumps(task.slots | task.found, sort_keys=True),
            "sources": list(task.entities),
            "difficulty": json.dumps(task.difficulty, sort_keys=True),
        }

    def write(self, made: SetInMaking, folder: Path) -> Any:
        """A folder a database; the id is of the tasks and the databases."""
        domains = []
        for number, part in enumerate(made.parts):
            domain, _ = read_domain_folder(part.folder)
            copy_domain_folder(part.folder, folder / f"{domain.name}-{number:04}", part.accepted)
            domains.append(domain.domain_id)
        return {"tasks": made.accepted, "domains": domains}
