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
from tutti.tasks.synthesis.dedup import duplicate_reasons
from tutti.tasks.synthesis.families import FAMILIES
from tutti.tasks.synthesis.gates import DUPLICATES, LIBRARY_GATES, GateResult, gate
from tutti.tasks.synthesis.making.rows import verdicts_of
from tutti.tasks.synthesis.task import Task

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
    candidates = propose(documents, request)
    reasons = duplicate_reasons(candidates)
    unique = [task for task, reason in zip(candidates, reasons, strict=True) if not reason]
    gated = await _gate_all(unique, search_url, on_progress)
    accepted = [verdict.task for verdict in gated if verdict.accepted]
    if not accepted:
        raise ValueError("no candidate passed the gates; the table `tasks` has the reasons")
    task_set_id = artifact_id("task_set", sorted(t.task_id for t in accepted), [index_id])
    repeated = [each for each in zip(candidates, reasons, strict=True) if each[1]]
    rows = [
        _row(task_set_id, task, "duplicate", f"{DUPLICATES}: {reason}") for task, reason in repeated
    ]
    rows += [_gated_row(task_set_id, verdict) for verdict in gated]
    detail = {"request": request_hash, "asked": request.model_dump(), "accepted": len(accepted)}
    detail |= {"candidates": len(candidates), "corpus_id": corpus_id(documents)}
    if catalog.artifact(task_set_id) is None:  # another request may have produced the same tasks
        judged = [(task.task_id, DUPLICATES, reason) for task, reason in repeated]
        judged += [(each.task.task_id, each.rejected_by, each.reason) for each in gated]
        verdicts = _verdicts(task_set_id, judged)
        commit(catalog, {"tasks": rows, "gate_verdicts": verdicts})
    catalog.enter_artifact(task_set_id, detail, [index_id])
    return task_set_id


async def _gate_all(
    candidates: list[Task], search_url: str, on_progress: Callable[[int, int], None]
) -> list[GateResult]:
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        on_progress(done, len(candidates))

    async with aiohttp.ClientSession() as session:
        toolbox = Toolbox(session, search_url, Sandbox(level_for_models()))
        return await gate(candidates, toolbox, count)


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
    return [Task.from_row(row | {"slots": json.loads(row["slots"])}) for row in rows]


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


def _gated_row(task_set_id: str, verdict: GateResult) -> dict[str, Any]:
    status = "accepted" if verdict.accepted else "rejected"
    messages = json.dumps(verdict.oracle.messages, ensure_ascii=False)
    reason = "" if verdict.accepted else f"{verdict.rejected_by}: {verdict.reason}"
    return _row(task_set_id, verdict.task, status, reason) | {"oracle_messages": messages}


def _verdicts(task_set_id: str, judged: Sequence[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """What each gate said of candidates: (task id, the gate that rejected it or none, reason).
    The gates before that one passed it."""
    names, found = list(LIBRARY_GATES), []
    for task_id, rejected_by, reason in judged:
        shown = names[: LIBRARY_GATES.get(rejected_by, len(names))]
        row = {"task_id": task_id, "accepted": not rejected_by, "reason": reason}
        row |= {"gates": shown, "measured": [None] * len(shown)}
        found += [each | {"task_set_id": task_set_id} for each in verdicts_of(row, LIBRARY_GATES)]
    return found


def _row(task_set_id: str, task: Task, status: str, reason: str) -> dict[str, Any]:
    row = task.as_row() | {"slots": json.dumps(task.slots, sort_keys=True)}
    row |= {"sources": list(task.sources), "task_set_id": task_set_id, "gated_at": cat.now()}
    return row | {"status": status, "reason": reason}
