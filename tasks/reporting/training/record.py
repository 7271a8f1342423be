"""What the store knows of one training, by SQL.

In: a store's connection, and a checkpoint's or adapter's id. Out: its card, the figures of its
steps, the job that asked for it, and its neighbours in the lineage.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tutti.errors import UsageError
from tutti.storage import Home, query
from tutti.tasks.reporting.focus import rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Row = Mapping[str, Any]
KINDS = ("checkpoint", "adapter")
VERBS = {"train-set": "tutti train sft", "train-policy": "tutti train grpo"}
"""The command that runs a flow's job."""

ARTIFACT_SQL = "select artifact_id, detail, created_at from artifacts where artifact_id = $id"
# A step that two runs recorded is the later one's.
STEPS_SQL = """
select * from train_steps where checkpoint_id = $id
qualify row_number() over (partition by step order by "at" desc) = 1 order by step
"""
COUNT_SQL = "select count(*) as n from train_steps where checkpoint_id = $id"
RUN_SQL = """
select run_id, flow, params from runs
where run_id = (select arg_max(run_id, "at") from train_steps where checkpoint_id = $id)
"""
LINEAGE_SQL = """
with recursive up as (
    select parent_id as artifact_id, -1 as away from artifact_parents where artifact_id = $id
    union
    select p.parent_id, away - 1 from artifact_parents p join up using (artifact_id)
),
down as (
    select artifact_id, 1 as away from artifact_parents where parent_id = $id
    union
    select p.artifact_id, away + 1 from artifact_parents p
    join down on p.parent_id = down.artifact_id
)
select artifact_id, arg_min(away, abs(away)) as away
from (from up union all from down) group by all order by away, artifact_id
"""
# The rollouts' sweep is a parent of the checkpoint; the other sweep of its run is the evaluations'.
HELD_OUT_SQL = """
select distinct sweep_id from attempts where run_id = $run and sweep_id is not null
    and sweep_id not in (select parent_id from artifact_parents where artifact_id = $id)
"""


@dataclass(frozen=True)
class Training:
    """One training, as the store knows it."""

    checkpoint_id: str
    card: Row
    made_at: datetime
    steps: Sequence[Row]
    """Rows of `train_steps`, in order."""
    flow: str | None
    job: Row
    """What the flow was given; empty where its run is not in the store."""
    lineage: Sequence[Row]
    """artifact_id, away: generations from the checkpoint, ancestors negative."""
    held_out_sweep: str | None
    """The sweep of a policy's evaluations."""

    @property
    def held_out(self) -> list[tuple[int, Row]]:
        """(steps done, score) of each evaluation of held-out tasks, in order."""
        found = self.card.get("held_out") or {}
        return sorted((int(after), score) for after, score in found.items())

    @property
    def command(self) -> str | None:
        """The command that makes it again from the job's file; None: its flow is not known."""
        verb = VERBS.get(self.flow or "")
        return f"{verb} job.yaml" if verb and self.job else None

    def values(self, name: str) -> list[tuple[int, float]]:
        """(step, value) of a column of `train_steps`, where it has one."""
        return [(row["step"], row[name]) for row in self.steps if row[name] is not None]


def steps_recorded(checkpoint_id: str, home: Home) -> bool:
    """Whether the steps of a training are in `train_steps`: a store may be pruned of them."""
    return bool(query(COUNT_SQL, home, {"id": checkpoint_id})[0]["n"])


def training_of(connection: "DuckDBPyConnection", checkpoint_id: str) -> Training:
    """Everything about a training. Raises UsageError for an unknown checkpoint."""
    found = rows(connection, ARTIFACT_SQL, id=checkpoint_id)
    if not found or checkpoint_id.split(":")[0] not in KINDS:
        known = "select artifact_id from artifacts where kind in ('checkpoint', 'adapter') and "
        known += "artifact_id in (select checkpoint_id from train_steps) order by created_at desc"
        ids = ", ".join(row["artifact_id"] for row in rows(connection, known)) or "none yet"
        raise UsageError(f"no checkpoint {checkpoint_id!r}; trained ones: {ids}")
    steps = rows(connection, STEPS_SQL, id=checkpoint_id)
    if not steps:
        raise UsageError(f"{checkpoint_id}: no steps in train_steps: it was not trained here")
    run = next(iter(rows(connection, RUN_SQL, id=checkpoint_id)), {})
    job = json.loads(run.get("params") or "{}")
    sweeps = rows(connection, HELD_OUT_SQL, id=checkpoint_id, run=run.get("run_id"))
    return Training(
        checkpoint_id,
        json.loads(found[0]["detail"] or "{}"),
        found[0]["created_at"],
        steps,
        run.get("flow"),
        job.get("job", job),
        rows(connection, LINEAGE_SQL, id=checkpoint_id),
        sweeps[0]["sweep_id"] if len(sweeps) == 1 else None,
    )
