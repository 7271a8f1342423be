"""What becomes a task set: its instances' tasks and rows, and its entry in the store."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tutti.storage import Catalog, artifact_id, commit_tables, query
from tutti.tasks.synthesis.domains import copy_domain_folder, read_domain_folder
from tutti.tasks.synthesis.making.instance import read_judged
from tutti.tasks.synthesis.making.rows import (
    POSITIONS,
    task_rows,
    verdict_rows,
    with_task_set,
)

ROWS_AT_ONCE = 10_000
"""Candidates of one commit: a few MB of Parquet, and some ten times that in memory."""
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
    positions: Mapping[str, int] = field(default_factory=lambda: POSITIONS)
    """Of the gates, in the order that they were shown to."""
    rows: list[int] = field(default_factory=list)
    """Candidates of each instance; the rows themselves are in files until they are committed, so
    that memory does not grow with the set."""

    def __post_init__(self) -> None:
        self._spool = self.folder.with_name("rows")
        shutil.rmtree(self._spool, ignore_errors=True)

    def take(self, instance: Path, number: int) -> None:
        """Copy an instance's tasks into the set, as many as are still wanted."""
        domain, _ = read_domain_folder(instance)
        out = self.folder / f"{domain.name}-{number:04}"
        copied = copy_domain_folder(instance, out, self.size - len(self.accepted))
        rows = list(read_judged(instance, copied))
        self.accepted += [row["task_id"] for row in rows if row["accepted"]]
        self.domains.append(domain.domain_id)
        self.candidates += len(rows)
        self.dropped.update(row["gates"][-1] for row in rows if not row["accepted"])
        self.keep_rows(task_rows(rows, domain.name), verdict_rows(rows, self.positions))

    def keep_rows(self, tasks: pa.Table, verdicts: pa.Table) -> None:
        """Keep rows of `tasks` and of `gate_verdicts` until they are committed."""
        self._spool.mkdir(parents=True, exist_ok=True)
        _write(tasks, self._file("tasks", len(self.rows)))
        _write(verdicts, self._file("gate_verdicts", len(self.rows)))
        self.rows.append(tasks.num_rows)

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
            self._commit(task_set_id, catalog)
        catalog.enter_artifact(task_set_id, detail, parents, out)
        return task_set_id

    def _commit(self, task_set_id: str, catalog: Catalog) -> None:
        """Commit the rows, some instances at once, each with its tasks and verdicts; those that a
        killed run has committed are not committed again."""
        known = query(COUNT, catalog.home, {"id": task_set_id})[0]["n"]
        for some in self._at_once():
            rows = sum(self.rows[number] for number in some)
            if known >= rows:
                known -= rows
                continue
            tables = {}
            for name in ("tasks", "gate_verdicts"):
                parts = [_read(self._file(name, number)) for number in some]
                tables[name] = with_task_set(pa.concat_tables(parts), task_set_id)
            commit_tables(catalog, tables)

    def _at_once(self) -> Iterator[list[int]]:
        """The instances' numbers, as many together as have `ROWS_AT_ONCE` rows."""
        some: list[int] = []
        for number in range(len(self.rows)):
            some.append(number)
            if sum(self.rows[each] for each in some) >= ROWS_AT_ONCE:
                yield some
                some = []
        if some:
            yield some

    def _file(self, table: str, number: int) -> Path:
        return self._spool / f"{table}-{number:04}.arrow"


def _write(table: pa.Table, file: Path) -> None:
    with pa.OSFile(str(file), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)


def _read(file: Path) -> pa.Table:
    with pa.OSFile(str(file), "rb") as given:
        return pa.ipc.open_file(given).read_all()
