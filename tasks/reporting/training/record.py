"""The record of one training, read by SQL, and its findings as sentences.

In: a store's connection, and a checkpoint's or adapter's id. Out: its card, the figures of its
steps, the job that asked for it, and its neighbours in the lineage.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from tutti.errors import UsageError
from tutti.storage import Home, query
from tutti.tasks.reporting.measures.numbers import number, p_value, rate, share, span
from tutti.tasks.sweeps.results import rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Row = Mapping[str, Any]
KINDS = ("checkpoint", "adapter")
VERBS = {"train-set": "tutti train sft", "train-policy": "tutti train grpo"}

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
    checkpoint_id: str
    card: Row
    made_at: datetime
    steps: Sequence[Row]
    flow: str | None
    job: Row
    """The flow's parameters; empty where its run is not in the store."""
    lineage: Sequence[Row]
    """artifact_id, away: generations from the checkpoint, ancestors negative."""
    held_out_sweep: str | None

    @property
    def held_out(self) -> list[tuple[int, Row]]:
        """(steps done, score) of each evaluation of held-out tasks, in order."""
        found = self.card.get("held_out") or {}
        return sorted((int(after), score) for after, score in found.items())

    @property
    def command(self) -> str | None:
        """The command that repeats it from the job's file; None if its flow is unknown."""
        verb = VERBS.get(self.flow or "")
        return f"{verb} job.yaml" if verb and self.job else None

    def values(self, name: str) -> list[tuple[int, float]]:
        """Return (step, value) of a column of `train_steps`, for steps that have one."""
        return [(row["step"], row[name]) for row in self.steps if row[name] is not None]


def steps_recorded(checkpoint_id: str, home: Home) -> bool:
    """Whether the steps of a training are in `train_steps`; a store may be pruned of them."""
    return bool(query(COUNT_SQL, home, {"id": checkpoint_id})[0]["n"])


def training_of(connection: "DuckDBPyConnection", checkpoint_id: str) -> Training:
    """Return all data of a training. Raises UsageError for an unknown checkpoint."""
    artifacts = rows(connection, ARTIFACT_SQL, id=checkpoint_id)
    if not artifacts or checkpoint_id.split(":")[0] not in KINDS:
        listing = "`select distinct checkpoint_id from train_steps` lists the trained ones"
        raise UsageError(f"no checkpoint {checkpoint_id!r}; {listing}")
    steps = rows(connection, STEPS_SQL, id=checkpoint_id)
    if not steps:
        raise UsageError(f"{checkpoint_id}: no steps in train_steps: it was not trained here")
    run = next(iter(rows(connection, RUN_SQL, id=checkpoint_id)), {})
    job = json.loads(run.get("params") or "{}")
    sweeps = rows(connection, HELD_OUT_SQL, id=checkpoint_id, run=run.get("run_id"))
    return Training(
        checkpoint_id,
        json.loads(artifacts[0]["detail"] or "{}"),
        artifacts[0]["created_at"],
        steps,
        run.get("flow"),
        job.get("job", job),
        rows(connection, LINEAGE_SQL, id=checkpoint_id),
        sweeps[0]["sweep_id"] if len(sweeps) == 1 else None,
    )


ENDS = 5
"""Steps at each end whose mean reward is shown: a single step's is mostly noise."""
FAR = 0.01
"""Nats of mean KL between trainer and engine beyond which other weights have sampled."""


def findings(training: Training) -> list[str]:
    """Return the results of the training as sentences."""
    sentences = _held_out(training)
    held_out = training.values("held_out_loss")
    if len(held_out) > 1:
        (first, before), (last, after) = held_out[0], held_out[-1]
        step, best = min(held_out, key=lambda pair: pair[1])
        sentences.append(
            f"Loss on held-out tasks: {before:.3f} after step {first}, {after:.3f} after step "
            f"{last}, lowest {best:.3f} after step {step}; nats a token, each one measurement."
        )
    rewards = [value for _, value in training.values("reward")]
    if len(rewards) >= 2 * ENDS:
        dead = fmean([value for _, value in training.values("dead_group_share")] or [0.0])
        sentences.append(
            f"Mean reward: {fmean(rewards[:ENDS]):.3f} in the first {ENDS} steps, "
            f"{fmean(rewards[-ENDS:]):.3f} in the last {ENDS}. {share(dead)} of the groups were "
            "dead."
        )
    if speeds := [value for _, value in training.values("tokens_per_s")]:
        seconds = sum(value for _, value in training.values("seconds"))
        words = f"{len(training.steps)} steps, {seconds:,.0f} s in them, median "
        words += f"{rate(median(speeds))} tokens/s"
        if memory := [value for _, value in training.values("peak_mb")]:
            words += f", at most {number(max(memory), 0)} MB of memory"
        if shares := [value for _, value in training.values("mfu")]:
            words += f", MFU {share(median(shares))}"
        sentences.append(f"{words}.")
    return sentences


def gaps(training: Training) -> list[str]:
    """Missing measurements, and limits of those there are."""
    missing = []
    if not training.held_out and not training.values("held_out_loss"):
        missing.append(
            "No held-out tasks were measured within this training: measure the checkpoint beside "
            "its base with a sweep and `tutti compare`."
        )
    if training.card.get("paired") is not None:
        missing.append("One training, one seed: the interval is over tasks, not over trainings.")
    empty = len(training.steps) - len(training.values("loss"))
    if empty:
        missing.append(f"{empty} of {len(training.steps)} steps had nothing to train on.")
    return missing


def alarms(training: Training) -> list[str]:
    """Reasons to doubt the whole training."""
    first = training.values("mismatch_kl")[:1]
    if first and first[0][1] > FAR:
        return [
            f"In step {first[0][0]} the trainer's log probabilities are {first[0][1]:.3g} nats of "
            "KL from the recorded ones: other weights have sampled these attempts."
        ]
    return []


def _held_out(training: Training) -> list[str]:
    if not training.held_out:
        return []
    said = [
        f"{share(score['accuracy'])} [{span(share, *score['wilson_95'])}] after {after} steps "
        f"(n = {score['n']})"
        for after, score in (training.held_out[0], training.held_out[-1])[: len(training.held_out)]
    ]
    sentences = [f"Held-out tasks: {', '.join(said)}."]
    if (paired := training.card.get("paired")) is not None and paired["ci_low"] is not None:
        points, low, high = (100 * paired[name] for name in ("difference", "ci_low", "ci_high"))
        p = p_value(paired["p"])
        sentences.append(
            f"Paired by task, {paired['n']} tasks: {points:+.1f} points, 95 % interval "
            f"{low:+.1f} to {high:+.1f}, p {'' if p.startswith('<') else '= '}{p}: "
            f"{paired['verdict']}."
        )
    return sentences
