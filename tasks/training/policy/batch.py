"""A step's batch: the attempts of its cell as groups, rewards, advantages and sequences.

In: a finished cell. Out: rows for the trainer, and the step's figures. Attempts that failed for
infrastructure reasons have no reward, and are in no group; they are never scored 0.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tutti.storage import Home, query
from tutti.tasks.training.job import JobError
from tutti.tasks.training.policy.job import RewardSettings
from tutti.tasks.training.rewards import ADVANTAGES, GroupFilter, Rollout, filtered
from tutti.tasks.training.sets.build import CALLS
from tutti.tasks.training.sets.frozen import ROW
from tutti.tasks.training.sets.sequences import NOT_TRAINED, recorded_calls, sequences_of

COUNTED = "('ok', 'limit', 'model_error')"


@dataclass(frozen=True)
class StepBatch:
    """What a step trains on."""

    rows: list[dict[str, Any]]
    figures: Mapping[str, float]
    """Of all the step's attempts, by the names of `train_steps`."""
    said: Mapping[str, Any]
    """More about it: groups by reason, breaks, truncated calls."""


def step_batch(
    cell_id: str, reward: RewardSettings, ends: frozenset[int], home: Home, seed: int
) -> StepBatch:
    """The batch of a finished cell. Raises JobError where the reward is no number."""
    attempts = _rewarded(cell_id, reward.sql, home)
    groups: dict[str, list[Rollout]] = {}
    for row in attempts:
        earned = row["reward"] if row["counted"] else None
        groups.setdefault(row["task_id"], []).append(Rollout(row["attempt_id"], earned))
    if reward.permuted:
        groups = _permuted(groups, seed)
    found = filtered(groups, GroupFilter(least_deviation=reward.least_deviation))
    advantages: dict[str, float] = {}
    for group in found.kept.values():
        values = ADVANTAGES[reward.advantage]([each.reward or 0.0 for each in group])
        advantages |= {each.attempt_id: a for each, a in zip(group, values, strict=True)}
    rows, said = _sequences(advantages, ends, home)
    earned_by = [row["reward"] for row in attempts if row["counted"]]
    figures = {
        "reward": sum(earned_by) / max(1, len(earned_by)),
        "groups": float(len(found.kept)),
        "dead_group_share": found.dead_share,
    }
    infra = sum(not row["counted"] for row in attempts)
    return StepBatch(rows, figures, said | {"groups": found.counts(), "infra": infra})


def write_batch(batch: StepBatch, file: Path) -> None:
    """Write the rows whole or not at all: the trainer takes the file when it appears."""
    temporary = file.with_suffix(".tmp")
    pq.write_table(pa.Table.from_pylist(batch.rows, ROW), temporary)
    temporary.replace(file)


def _rewarded(cell_id: str, reward: str, home: Home) -> list[dict[str, Any]]:
    sql = (
        f"select attempt_id, task_id, status in {COUNTED} as counted, cast(({reward}) as double) "
        "as reward from attempts where cell_id = $cell order by task_id, trial, attempt"
    )
    try:
        rows = query(sql, home, {"cell": cell_id})
    except Exception as error:  # whatever DuckDB says of somebody's expression
        raise JobError(f"reward.sql: {error}") from None
    for row in rows:
        if row["counted"] and row["reward"] is None:
            raise JobError(f"reward.sql: null for {row['attempt_id']}; use coalesce")
    return rows


def _permuted(groups: Mapping[str, Sequence[Rollout]], seed: int) -> dict[str, list[Rollout]]:
    mixed: dict[str, list[Rollout]] = {}
    for task_id, group in groups.items():
        rewarded = [each for each in group if each.reward is not None]
        rewards = [each.reward for each in rewarded]
        Random(f"{seed} {task_id}").shuffle(rewards)
        mixed[task_id] = [
            Rollout(each.attempt_id, earned) for each, earned in zip(rewarded, rewards, strict=True)
        ] + [each for each in group if each.reward is None]
    return mixed


def _sequences(
    advantages: Mapping[str, float], ends: frozenset[int], home: Home
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    calls: dict[str, list[dict[str, Any]]] = {}
    for row in query(CALLS, home, {"ids": [*advantages]}):
        calls.setdefault(row["attempt_id"], []).append(row)
    rows: list[dict[str, Any]] = []
    breaks: Counter[str] = Counter()
    truncated = unrecorded = 0
    for attempt_id, advantage in advantages.items():
        recorded = recorded_calls(calls.get(attempt_id, []))
        if not recorded:
            unrecorded += 1
            continue
        found = sequences_of(recorded, ends)
        breaks, truncated = breaks + found.breaks, truncated + found.truncated
        for each in found.sequences:
            values = [0.0 if turn == NOT_TRAINED else advantage for turn in each.turns]
            made = {"name": attempt_id, "ids": each.ids, "turns": each.turns, "wanted": None}
            rows.append(made | {"values": values, "logprobs": each.logprobs})
    said = {"breaks": dict(breaks), "truncated": truncated, "unrecorded": unrecorded}
    return rows, said
