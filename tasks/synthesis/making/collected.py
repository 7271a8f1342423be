"""What becomes a task set: its instances' tasks and rows, and its entry in the store."""

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tutti.storage import Catalog, artifact_id, commit_tables, query
from tutti.tasks.synthesis.domains import read_domain_folder, write_domain_folder
from tutti.tasks.synthesis.making.instance import read_judged
from tutti.tasks.synthesis.making.rows import (
    POSITIONS,
    task_rows,
    verdict_rows,
    with_task_set,
)

COUNT = "select count(*) as n from tasks where task_set_id = $id"


@dataclass
class Collected:
    """A set as far as it is made."""

    size: int
    """Tasks wanted."""
    folder: Path
    """Of the set."""
    accepted: list[str] = field(default_factory=list)
    domains: list[str] = field(default_factory=list)
    candidates: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    """By gate."""
    tasks: list[pa.Table] = field(default_factory=list)
    verdicts: list[pa.Table] = field(default_factory=list)
    positions: Mapping[str, int] = field(default_factory=lambda: POSITIONS)
    """Of the gates, in the order that they were shown to."""

    def take(self, instance: Path, number: int) -> None:
        """Copy an instance's tasks into the set, as many as are still wanted."""
        domain, tasks = read_domain_folder(instance)
        kept = list(tasks)[: self.size - len(self.accepted)]
        out = self.folder / f"{domain.name}-{number:04}"
        out.mkdir(parents=True, exist_ok=True)
        write_domain_folder(out, domain, kept)
        rows = list(read_judged(instance, kept[-1].task_id if kept else None))
        self.accepted += [each.task_id for each in kept]
        self.domains.append(domain.domain_id)
        self.candidates += len(rows)
        self.dropped.update(row["gates"][-1] for row in rows if not row["accepted"])
        self.tasks.append(task_rows(rows, domain.name))
        self.verdicts.append(verdict_rows(rows, self.positions))

    def drops(self) -> str:
        """The gates that dropped most, for people."""
        return ", ".join(f"{gate} {n}" for gate, n in self.dropped.most_common(3)) or "no drops"

    def enter(
        self,
        named: Mapping[str, Any],
        catalog: Catalog,
        parents: Sequence[str] = (),
        content: Mapping[str, Any] | None = None,
    ) -> str:
        """Commit the rows and enter the artifact; one killed in between enters the same again.

        `named`: what the artifact's detail says besides: request, name, asked, compared_with.
        `content`: what tells the set apart besides its tasks and databases.
        """
        whole_content = {"tasks": self.accepted, "domains": self.domains, **(content or {})}
        task_set_id = artifact_id("task_set", whole_content, parents)
        detail = {**named, "accepted": len(self.accepted), "candidates": self.candidates}
        detail |= {"dropped": dict(self.dropped)}
        text = json.dumps(detail, indent=1, sort_keys=True) + "\n"
        (self.folder / "set.json").write_text(text)
        out = catalog.home.artifact_folder(task_set_id)
        if catalog.artifact(task_set_id) is None:  # another request may have made the same tasks
            shutil.rmtree(out, ignore_errors=True)
            self.folder.rename(out)
            if not query(COUNT, catalog.home, {"id": task_set_id})[0]["n"]:
                tables = {"tasks": self.tasks, "gate_verdicts": self.verdicts}
                whole = {name: pa.concat_tables(parts) for name, parts in tables.items()}
                commit_tables(
                    catalog, {name: with_task_set(t, task_set_id) for name, t in whole.items()}
                )
        catalog.enter_artifact(task_set_id, detail, parents, out)
        return task_set_id
