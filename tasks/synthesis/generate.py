"""Makes a task set: propose, sample, remove duplicates, gate, and store every verdict.

In: a corpus, an index over it, a request. Out: an artifact ``task_set:...`` whose accepted and
rejected tasks are rows of the table `tasks`, with what each gate said of them in `gate_verdicts`.
"""

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import aiohttp
import sqlalchemy as sa
from pydantic import BaseModel, ConfigDict, Field

from tutti.storage import Catalog, artifact_id, commit, content_hash, query
from tutti.storage import catalog as cat
from tutti.tasks.agents import Toolbox
from tutti.tasks.retrieval import Document, corpus_id
from tutti.tasks.sandbox import Sandbox, level_for_models
from tutti.tasks.synthesis.families import FAMILIES
from tutti.tasks.synthesis.gates import LIBRARY_GATES, Duplicates, LibraryContext
from tutti.tasks.synthesis.making.rows import verdicts_of
from tutti.tasks.synthesis.task import row_of, task_of_row
from tutti.tasks.task_sets import Judged, Task, run_gates

GENERATOR_VERSION = "2"
POSITIONS = {name: place for place, name in enumerate(LIBRARY_GATES, 1)}
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


async def synthesize(
    documents: Sequence[Document],
    request: TaskRequest,
    index_id: str,
    search_url: str,
    catalog: Catalog,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> str:
    """Make the task set for `request`, or find an existing one; returns its id.

    Raises ToolUnavailable if a gate's tool fails, StoreError if the store does.
    """
    request_hash = _request_hash(request, index_id)
    known = find_task_set(catalog, request_hash)
    if known is not None:
        return known
    judged = [Judged(task) for task in propose(documents, request)]
    async with aiohttp.ClientSession() as session:
        toolbox = Toolbox(session, search_url, Sandbox(level_for_models()))
        context = LibraryContext(toolbox, on_progress)
        await run_gates(judged, LIBRARY_GATES.values(), context)
    accepted = sorted(each.task.task_id for each in judged if each.reason is None)
    if not accepted:
        raise ValueError("no candidate passed the gates; the table `tasks` has the reasons")
    task_set_id = artifact_id("task_set", accepted, [index_id])
    detail = {"request": request_hash, "asked": request.model_dump(), "accepted": len(accepted)}
    detail |= {"candidates": len(judged), "corpus_id": corpus_id(documents)}
    if catalog.artifact(task_set_id) is None:  # another request may have produced the same tasks
        known_set = {"task_set_id": task_set_id}
        rows = [_row(each, context) | known_set for each in judged]
        verdicts = [row | known_set for e in judged for row in verdicts_of(e.as_row(), POSITIONS)]
        commit(catalog, {"tasks": rows, "gate_verdicts": verdicts})
    catalog.enter_artifact(task_set_id, detail, [index_id])
    return task_set_id


def find_task_set(catalog: Catalog, request_hash: str) -> str | None:
    """The id of the existing task set of a request, or None."""
    rows = catalog.rows(sa.select(cat.artifacts).where(cat.artifacts.c.kind == "task_set"))
    for row in rows:
        if json.loads(row["detail"])["request"] == request_hash:
            return str(row["artifact_id"])
    return None


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


def _row(judged: Judged[Task], context: LibraryContext) -> dict[str, Any]:
    task, status, reason = judged.task, "accepted", ""
    if judged.reason is not None:
        gate = judged.gates[-1]
        status = "duplicate" if gate == Duplicates.name else "rejected"
        reason = f"{gate}: {judged.reason}"
    row = row_of(task) | {"slots": json.dumps(task.slots, sort_keys=True)}
    row |= {"sources": list(task.sources), "gated_at": cat.now()}
    if status != "duplicate":  # of one with the same id, which the oracle may have solved
        messages = context.solved[task.task_id].messages
        row["oracle_messages"] = json.dumps(messages, ensure_ascii=False)
    return row | {"status": status, "reason": reason}
