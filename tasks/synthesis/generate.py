"""A source of questions over the standard library, and the sets that were made of it."""

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import sqlalchemy as sa
from pydantic import BaseModel, ConfigDict, Field

from tutti.storage import Catalog, content_hash, query
from tutti.storage import catalog as cat
from tutti.tasks.agents import Toolbox
from tutti.tasks.retrieval import Document, corpus_id
from tutti.tasks.sandbox import Sandbox, level_for_models
from tutti.tasks.synthesis.families import FAMILIES
from tutti.tasks.synthesis.gates import LIBRARY_GATES, Duplicates, LibraryContext
from tutti.tasks.synthesis.task import row_of, task_of_row
from tutti.tasks.task_sets import (
    Judged,
    Row,
    SetInMaking,
    Source,
    Task,
    is_judged,
    run_gates,
    write_part,
)

GENERATOR_VERSION = "2"
POCKET_FAMILIES = ("module", "parameter", "default", "expression", "arithmetic", "count_sum")


class TaskRequest(BaseModel):
    """The parameters of a task set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
    """Candidates of every family and split, at most the requested number of each, in a fixed
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

    Raises ToolUnavailable from its parts if a gate's tool fails.
    """

    gates = tuple(LIBRARY_GATES)

    def __init__(
        self,
        documents: Sequence[Document],
        request: TaskRequest,
        index_id: str,
        search_url: str,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        """`index_id`, `search_url`: the index over the documents, and its service."""
        self.documents, self.request, self.search_url = documents, request, search_url
        self.on_progress = on_progress
        self.parents = [index_id]
        self.request_hash = self.work_name = _request_hash(request, index_id)

    async def parts(self, work: Path, made: SetInMaking) -> AsyncGenerator[Path, None]:
        """One: no candidate is compared with those of other parts."""
        folder = work / "judged"
        if not is_judged(folder):
            judged = [Judged(task) for task in propose(self.documents, self.request)]
            async with aiohttp.ClientSession() as session:
                toolbox = Toolbox(session, self.search_url, Sandbox(level_for_models()))
                context = LibraryContext(toolbox, self.on_progress)
                await run_gates(judged, LIBRARY_GATES.values(), context)
            write_part(folder, judged, partial(_as_json, context))
        yield folder

    def columns(self, row: Row) -> dict[str, Any]:
        """Of a question; one that the oracle was shown has its messages."""
        task = dict(row["task"])
        task["slots"] = json.dumps(task["slots"], sort_keys=True)
        if row["gates"][-1] == Duplicates.name and not row["accepted"]:
            task.pop("oracle_messages", None)  # of one with the same id
            return task | {"status": "duplicate"}
        return task

    def detail(self, made: SetInMaking) -> dict[str, Any]:
        """What was asked for."""
        return {"asked": self.request.model_dump(), "corpus_id": corpus_id(self.documents)}


def _as_json(context: LibraryContext, task: Task) -> str:
    row = row_of(task)
    if (solved := context.solved.get(task.task_id)) is not None:
        row["oracle_messages"] = json.dumps(solved.messages, ensure_ascii=False)
    return json.dumps(row, ensure_ascii=False)


def find_made(catalog: Catalog, request: TaskRequest) -> tuple[str, str] | None:
    """The newest task set for `request`, and the index it was made with."""
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


def read_tasks(catalog: Catalog, task_set_id: str, split: str) -> list[Task]:
    """The accepted tasks of one split, in the order of their ids."""
    rows = query(
        "select * from tasks where status = 'accepted' "
        f"and task_set_id = '{task_set_id}' and split = '{split}' order by task_id",
        catalog.home,
    )
    return [task_of_row(row | {"slots": json.loads(row["slots"])}) for row in rows]


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
