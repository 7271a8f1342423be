"""Creation of a task set from a source's candidates, the same for every kind of task.

In: a `Source`, a catalog. Out: an artifact ``task_set:...`` with the source's files, and rows of
`tasks` and `gate_verdicts` for every candidate. The same request gives the same set; a killed run
resumes after the last judged part.
"""

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pydantic import TypeAdapter

from tutti.errors import TuttiError
from tutti.storage import Catalog, artifact_id, commit, held, query
from tutti.storage import catalog as cat
from tutti.tasks.task_sets.files import (
    TASK,
    TASKS,
    Row,
    read_part,
    read_verdicts,
    task_row,
    verdict_rows,
    write_tasks,
)
from tutti.tasks.task_sets.task import Task

ROWS_AT_ONCE = 10_000
"""Candidates of one commit: a few MB of Parquet, and some ten times that in memory."""
SETTINGS = "set.json"
"""The file of a set with its request."""
COUNT = "select count(*) as n from tasks where task_set_id = $id"
Show = Callable[[int, int, str], None]
"""(tasks that passed, tasks wanted, a note)."""


def _show_nothing(done: int, total: int, note: str) -> None:
    return


class NothingMade(TuttiError, RuntimeError):
    """Too few candidates passed the gates."""


@dataclass(frozen=True)
class Part:
    """A part of a set's candidates, judged by the gates."""

    folder: Path
    candidates: int
    """Those that are needed: the first ones of the folder."""
    accepted: int


@dataclass
class SetInMaking:
    """The parts of a set so far."""

    size: int | None
    """Tasks wanted; None: all that pass."""
    show: Show = _show_nothing
    """Shows the progress."""
    parts: list[Part] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    """Task ids."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Rejected candidates by gate."""

    @property
    def is_whole(self) -> bool:
        """Whether it has as many tasks as requested."""
        return len(self.accepted) == self.size

    @property
    def candidates(self) -> int:
        """The number of judged candidates."""
        return sum(part.candidates for part in self.parts)

    def take(self, folder: Path) -> None:
        """Add a part, up to the last requested task."""
        before, candidates = len(self.accepted), 0
        for row in read_verdicts(folder):
            if self.is_whole:
                break
            candidates += 1
            if row["accepted"]:
                self.accepted.append(row["task_id"])
            else:
                self.dropped[row["gates"][-1]] += 1
        self.parts.append(Part(folder, candidates, len(self.accepted) - before))

    def rows(self, of: "TypeAdapter[Task]") -> Iterator[Row]:
        """Yield all candidates, in order."""
        for part in self.parts:
            yield from read_part(part.folder, of, part.candidates)

    def drops(self) -> str:
        """Return the gates that dropped most candidates, as text."""
        return ", ".join(f"{gate} {n}" for gate, n in self.dropped.most_common(3)) or "no drops"


class Source:
    """The candidates of a set, and the files and rows of the accepted ones."""

    request_hash: str | None = None
    """Hash of all that decides the set; None: the store's attempts decide, too."""
    work_name: str
    """Name of the work folder: two runs with one name wait for each other."""
    size: int | None = None
    """Tasks wanted; None: all that pass."""
    gates: Sequence[str]
    """Names, in the order in which candidates are shown to them."""
    parents: Sequence[str] = ()
    """Artifacts that the set is made of."""
    is_paid = False
    """Whether a model is asked: its answers stay where too few candidates passed."""
    task_type: "TypeAdapter[Any]" = TASK
    """The type of its tasks, with that of their worlds."""
    spent = ""
    """Calls, tokens and USD of this run; empty where no model was asked."""

    def parts(self, work: Path, made: SetInMaking) -> AsyncGenerator[Path, None]:
        """Yield folders of judged candidates (`write_part`) in the same order in every run. `made`
        has the parts yielded before."""
        raise NotImplementedError

    def row(self, row: Row, task_set_id: str) -> dict[str, Any]:
        """Return the row of `tasks` for a candidate."""
        return task_row(row, task_set_id)

    def write(self, made: SetInMaking, folder: Path) -> Any:
        """Write the set's files into a folder that does not exist; return the content whose hash is
        the set's id."""
        folder.mkdir()
        write_tasks(folder / TASKS, (r["task"] for r in made.rows(self.task_type) if r["accepted"]))
        return sorted(made.accepted)

    def detail(self, made: SetInMaking) -> dict[str, Any]:
        """Return the detail of the artifact: name, request ..."""
        raise NotImplementedError

    def too_few(self, made: SetInMaking) -> str:
        """Return why there is no set and what to do, as text."""
        what = f"no candidate of {made.candidates} passed the gates"
        return f"{what}; dropped by {made.drops()}"


async def make_set(source: Source, catalog: Catalog, show: Show = _show_nothing) -> str:
    """Make the set or look up an existing one; return its id.

    Raises NothingMade, StoreError, and the source's errors.
    """
    known = find_task_set(catalog, source.request_hash)
    if known is not None:
        return known
    work = catalog.home.artifacts / f"task_set-{source.work_name}.work"
    with held(catalog, f"making {work.name}"):  # two would write one folder, and pay twice
        made = await _gather(source, work, show)
        if not made.accepted or not (made.is_whole or source.size is None):
            if not source.is_paid:
                shutil.rmtree(work, ignore_errors=True)  # another size is another request
            raise NothingMade(source.too_few(made))
        task_set_id = await asyncio.to_thread(_enter, source, made, work / "set", catalog)
        shutil.rmtree(work)
    return task_set_id


async def _gather(source: Source, work: Path, show: Show) -> SetInMaking:
    """Take the source's parts until there are enough tasks, or no more parts."""
    made = SetInMaking(source.size, show)
    async with aclosing(source.parts(work, made)) as parts:
        async for folder in parts:
            made.take(folder)
            show(len(made.accepted), source.size or made.candidates, made.drops())
            if made.is_whole:
                break
    return made


def find_task_set(catalog: Catalog, request_hash: str | None) -> str | None:
    """Return the id of the existing task set of a request, or None."""
    if request_hash is None:
        return None
    rows = catalog.rows(sa.select(cat.artifacts).where(cat.artifacts.c.kind == "task_set"))
    found = (r for r in rows if json.loads(r["detail"])["request"] == request_hash)
    return next((str(row["artifact_id"]) for row in found), None)


def _enter(source: Source, made: SetInMaking, folder: Path, catalog: Catalog) -> str:
    """Commit the rows and enter the artifact; repeating it after a kill enters the same
    artifact."""
    shutil.rmtree(folder, ignore_errors=True)
    content = source.write(made, folder)
    task_set_id = artifact_id("task_set", content, source.parents)
    detail = {"request": source.request_hash, **source.detail(made)}
    detail |= {"accepted": len(made.accepted), "candidates": made.candidates}
    detail |= {"dropped": dict(made.dropped)}
    out = catalog.home.artifact_folder(task_set_id) if folder.is_dir() else None
    if catalog.artifact(task_set_id) is None:  # another request may have made the same tasks
        if out is not None:
            (folder / SETTINGS).write_text(json.dumps(detail, indent=1, sort_keys=True) + "\n")
            shutil.rmtree(out, ignore_errors=True)
            folder.rename(out)
        _commit(source, made, task_set_id, catalog)
    catalog.enter_artifact(task_set_id, detail, source.parents, out)
    return task_set_id


def _commit(source: Source, made: SetInMaking, task_set_id: str, catalog: Catalog) -> None:
    """Commit the rows, some complete parts at a time; those of a killed run only once."""
    known = query(COUNT, catalog.home, {"id": task_set_id})[0]["n"]
    tables: dict[str, list[Mapping[str, Any]]] = {"tasks": [], "gate_verdicts": []}
    for part in made.parts:
        if known >= part.candidates:
            known -= part.candidates
            continue
        for row in read_part(part.folder, source.task_type, part.candidates):
            tables["tasks"].append(source.row(row, task_set_id))
            tables["gate_verdicts"] += verdict_rows(row, source.gates, task_set_id)
        if len(tables["tasks"]) >= ROWS_AT_ONCE:
            commit(catalog, tables)
            tables = {"tasks": [], "gate_verdicts": []}
    if tables["tasks"]:
        commit(catalog, tables)
