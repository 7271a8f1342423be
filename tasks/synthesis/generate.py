"""A source of questions over the standard library, and the sets from it."""

import json
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal

import aiohttp
import sqlalchemy as sa
from pydantic import BaseModel, ConfigDict, Field

from tutti.storage import Catalog, content_hash, query
from tutti.storage import catalog as cat
from tutti.tasks.agents.tools import Toolbox
from tutti.tasks.retrieval import Document, corpus_id
from tutti.tasks.sandbox import Sandbox, level_for_models
from tutti.tasks.synthesis.families import FAMILIES
from tutti.tasks.synthesis.gates import LIBRARY_GATES, Duplicates, LibraryContext
from tutti.tasks.task_sets import (
    TASK,
    TASKS,
    Judged,
    Message,
    Row,
    SetInMaking,
    Source,
    Task,
    is_judged,
    read_tasks,
    run_gates,
    write_part,
)

GENERATOR_VERSION = "3"
SOLUTIONS = "oracle.json"
"""The file of a part with the oracle's messages by task id."""
POCKET_FAMILIES = ("module", "parameter", "default", "expression", "arithmetic", "count_sum")


class TaskRequest(BaseModel):
    """The parameters of a task set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Literal["stdlib"] = Field("stdlib", description="questions over the standard library")
    families: tuple[str, ...] = Field(
        POCKET_FAMILIES,
        description="task families, by name",
        min_length=1,
        json_schema_extra={"items": {"type": "string", "enum": list(FAMILIES)}},  # choices
    )
    train_per_family: int = Field(40, ge=0, description="candidates for training, each family")
    test_per_family: int = Field(16, ge=0, description="candidates for testing, each family")
    seed: int = Field(0, description="decides which documents are asked about, and how")

    def model_post_init(self, _: Any) -> None:
        """Reject unknown families with an error that lists the known ones."""
        for name in self.families:
            if name not in FAMILIES:
                raise ValueError(f"no family {name!r}; known: {', '.join(FAMILIES)}")


def propose(documents: Sequence[Document], request: TaskRequest) -> list[Task]:
    """Return candidates of every family and split, at most the requested number of each, in a fixed
    order."""
    candidates: list[Task] = []
    for name in request.families:
        proposed = list(FAMILIES[name].propose(documents, Random(f"{request.seed}/{name}")))
        Random(f"{request.seed}/{name}/order").shuffle(proposed)
        for split, limit in (
            ("train", request.train_per_family),
            ("test", request.test_per_family),
        ):
            candidates += [task for task in proposed if task.split == split][:limit]
    return candidates


class StdlibSource(Source):
    """Candidates of the families, which the oracle solves with the real tools.

    `parts` may raise ToolUnavailable if a gate's tool fails.
    """

    gates = tuple(LIBRARY_GATES)

    def __init__(
        self,
        documents: Sequence[Document],
        request: TaskRequest,
        index_id: str,
        search_url: str,
    ) -> None:
        """`index_id`, `search_url`: the index over the documents, and its service."""
        self.documents, self.request, self.search_url = documents, request, search_url
        self.parents = [index_id]
        self.request_hash = self.work_name = _request_hash(request, index_id)
        self._solutions: dict[str, list[Message]] = {}

    async def parts(self, work: Path, made: SetInMaking) -> AsyncGenerator[Path, None]:
        """Yield one part, because candidates are not compared with those of other parts."""
        folder = work / "judged"
        if not is_judged(folder):
            judged = [Judged(task) for task in propose(self.documents, self.request)]
            async with aiohttp.ClientSession() as session:
                toolbox = Toolbox(session, self.search_url, Sandbox(level_for_models()))
                context = LibraryContext(toolbox, made.show)
                await run_gates(judged, LIBRARY_GATES.values(), context)
            write_part(folder, judged, partial(_write_solutions, context))
        self._solutions = json.loads((folder / SOLUTIONS).read_text())
        yield folder

    def row(self, row: Row, task_set_id: str) -> dict[str, Any]:
        """Return the row of a question, with messages if the oracle tried it."""
        found = super().row(row, task_set_id)
        if row["gates"][-1] == Duplicates.name and not row["accepted"]:
            return found | {"status": "duplicate"}  # the solution is that of one with the same id
        if (solution := self._solutions.get(row["task_id"])) is not None:
            found["oracle_messages"] = json.dumps(solution, ensure_ascii=False)
        return found

    def detail(self, made: SetInMaking) -> dict[str, Any]:
        """Return the request."""
        return {"asked": self.request.model_dump(), "corpus_id": corpus_id(self.documents)}


def _write_solutions(context: LibraryContext, folder: Path) -> None:
    solutions = {task_id: solved.messages for task_id, solved in context.solved.items()}
    (folder / SOLUTIONS).write_text(json.dumps(solutions, ensure_ascii=False))


def find_made(catalog: Catalog, request: TaskRequest) -> tuple[str, str] | None:
    """Return the newest task set for `request`, and the index that it used."""
    sets = sa.select(cat.artifacts, cat.artifact_parents.c.parent_id).join(
        cat.artifact_parents, cat.artifacts.c.artifact_id == cat.artifact_parents.c.artifact_id
    )
    rows = catalog.rows(
        sets.where(cat.artifacts.c.kind == "task_set").order_by(cat.artifacts.c.created_at.desc())
    )
    for row in rows:
        wanted = _request_hash(request, row["parent_id"])
        if json.loads(row["detail"])["request"] == wanted:
            return str(row["artifact_id"]), str(row["parent_id"])
    return None


def _request_hash(request: TaskRequest, index_id: str) -> str:
    return content_hash([GENERATOR_VERSION, request.model_dump(), index_id])


def read_split(catalog: Catalog, task_set_id: str, split: str) -> list[Task]:
    """Return the accepted tasks of one split, in the order of their ids."""
    file = catalog.home.artifact_folder(task_set_id) / TASKS
    found = (each for each in read_tasks(file, TASK) if each.split == split)
    return sorted(found, key=lambda each: each.task_id)


def read_conversations(catalog: Catalog, task_set_id: str, split: str) -> list[dict[str, Any]]:
    """The oracle's messages for accepted tasks of a split: ``{task_id, family, messages}``."""
    rows = query(
        "select task_id, family, oracle_messages from tasks where status = 'accepted' "
        f"and task_set_id = '{task_set_id}' and split = '{split}' order by task_id",
        catalog.home,
    )
    return [
        {
            "task_id": r["task_id"],
            "family": r["family"],
            "messages": json.loads(r["oracle_messages"]),
        }
        for r in rows
    ]
