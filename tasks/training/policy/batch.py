"""A step's batch: its attempts as groups, rewards, advantages and sequences.

In: finished cells, and a job's reward. Out: rows for the trainer, and the step's figures. Attempts
earn by their newest verdicts, task by task. An attempt that does not count (it failed for
infrastructure reasons, or came too late) has no reward; it is never scored 0.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tutti.storage import Home, query
from tutti.tasks.training.job import JobError, rows_of
from tutti.tasks.training.policy.job import PolicyJob, RewardSettings
from tutti.tasks.training.policy.picks import Picks, read_picks
from tutti.tasks.training.rewards import (
    ADVANTAGES,
    AttemptFeatures,
    Dialogue,
    Filtered,
    RewardError,
    Rollout,
    aligned,
    decoupled,
    filtered,
    overlong,
    preference_rewards,
    turn_advantages,
    turn_returns,
    whitened,
)
from tutti.tasks.training.sets.chosen import UNRECORDED, counts_of, read_sequences, row_of
from tutti.tasks.training.sets.frozen import ROW
from tutti.tasks.training.sets.sequences import NOT_TRAINED, AttemptSequences

USES = """
with runs as (
    select attempt_id, name, try_cast(arguments as json) as given,
        status = 'ok' and trim(coalesce(result, '')) <> '' and (name = 'answer' or coalesce(step <
        min(step) filter (name = 'answer' and status = 'ok') over (partition by attempt_id), true))
        as served
    from tool_runs where attempt_id in (select unnest($ids))
)
select attempt_id, used as name, count(*) as uses, bool_or(served) as served from (
    select attempt_id, name as used, served from runs union all
    select attempt_id, coalesce(given ->> 'expert', given ->> 'model'), served from runs
    where name in ('call_expert', 'search', 'enhance_reasoning', 'answer')
) where used is not null group by all
"""
"""Of tools by name, and of an orchestrator's experts by alias. A call serves if it succeeded, gave
something back, and did not come with or after the answer."""
WEIGHTS = (
    "select task_id, any_value(slots ->> 'preference') as weights from tasks "
    "where task_id in (select unnest($ids)) group by all"
)
"""The attribute `preference` of a synthesized domain's items, JSON."""


Groups = dict[str, list[Rollout]]
"""By task, in the order of trials."""


def earned_by(cells: Sequence[str], settings: RewardSettings, home: Home) -> Groups:
    """The groups of finished cells. Raises JobError where a reward is no number."""
    rows = _rows(cells, settings, home)
    groups: Groups = {}
    for row in rows:
        groups.setdefault(row["task_id"], []).append(_earned(row, settings))
    if settings.preference:
        groups = _preferred(groups, {row["attempt_id"]: row for row in rows}, settings, home)
    return groups


def permuted(groups: Groups, seed: int) -> Groups:
    """The same groups with what was earned dealt out anew among those of a group."""
    mixed: Groups = {}
    for task_id, group in groups.items():
        rewarded = [each for each in group if each.reward is not None]
        dealt = list(rewarded)
        Random(f"{seed} {task_id}").shuffle(dealt)
        mixed[task_id] = [
            replace(other, attempt_id=each.attempt_id)
            for each, other in zip(rewarded, dealt, strict=True)
        ] + [each for each in group if each.reward is None]
    return mixed


def _rows(cells: Sequence[str], settings: RewardSettings, home: Home) -> list[dict[str, Any]]:
    wanted = {name: part.sql for name, part in settings.parts.items()}
    wanted = wanted or ({} if settings.preference else {"sql": settings.sql})
    columns = "".join(
        f", cast(({sql}) as double) as part_{nth}" for nth, sql in enumerate(wanted.values())
    )
    statement = (
        "with rewarded as (select cell_id, attempt_id, completion_tokens, is_right, cost_usd, "
        f"working_s{columns} from counted where cell_id in (select unnest($cells))) "
        "select a.task_id, a.attempt_id, a.status, r.* exclude (cell_id, attempt_id), "
        "r.attempt_id is not null as counted from attempts a left join rewarded r "
        "on r.cell_id = a.cell_id and r.attempt_id = a.attempt_id "
        "where a.cell_id in (select unnest($cells)) order by a.task_id, a.trial, a.attempt"
    )
    stated = "reward.parts" if settings.parts else "reward.sql"
    rows = rows_of(statement, home, stated, {"cells": list(cells)})
    for row in rows:
        row["parts"] = {name: row[f"part_{nth}"] for nth, name in enumerate(wanted)}
        for name, value in row["parts"].items():
            if row["counted"] and value is None:
                where = f"parts.{name}.sql" if settings.parts else "sql"
                raise JobError(f"reward.{where}: null for {row['attempt_id']}; use coalesce")
    return rows


def _earned(row: Mapping[str, Any], settings: RewardSettings) -> Rollout:
    name = row["attempt_id"]
    if not row["counted"]:
        return Rollout(name, None)
    parts = dict(row["parts"])
    if settings.overlong is not None:
        asked = settings.overlong
        tokens = row["completion_tokens"]
        if tokens is None:
            raise JobError(f"reward.overlong: the completion tokens of {name} are unknown")
        parts["overlong"] = overlong(tokens, asked.most_tokens, asked.buffer_tokens)
    valid = row["status"] != "model_error"
    total = sum(weight_of(part, settings) * value for part, value in parts.items())
    return Rollout(name, total, valid, parts=parts)


def weight_of(part: str, settings: RewardSettings) -> float:
    """What a part of a reward is multiplied with."""
    return settings.parts[part].weight if part in settings.parts else 1.0


def _preferred(
    groups: Groups, rows: Mapping[str, Mapping[str, Any]], settings: RewardSettings, home: Home
) -> Groups:
    """The preference of each attempt over those of its group, added to what it has."""
    used: dict[str, list[dict[str, Any]]] = {}
    for row in query(USES, home, {"ids": list(rows)}):
        used.setdefault(row["attempt_id"], []).append(row)
    weights = _weights(list(groups), settings, home)
    made: Groups = {}
    for task_id, group in groups.items():
        rewarded = [each for each in group if each.reward is not None]
        wanted = weights[task_id]
        features = [
            _features(rows[each.attempt_id], used.get(each.attempt_id, ()), wanted)
            for each in rewarded
        ]
        values = _rewards(task_id, features, wanted)
        made[task_id] = [
            replace(each, reward=value + (each.reward or 0.0))
            for each, value in zip(rewarded, values, strict=True)
        ] + [each for each in group if each.reward is None]
    return made


def _weights(
    task_ids: Sequence[str], settings: RewardSettings, home: Home
) -> Mapping[str, Mapping[str, float]]:
    """The weights of each task: the job's, or its own. Raises JobError for a task without any."""
    if settings.preference != "task":
        return dict.fromkeys(task_ids, settings.preference)
    found = {row["task_id"]: row["weights"] for row in query(WEIGHTS, home, {"ids": task_ids})}
    for task_id in task_ids:
        if not found.get(task_id):
            raise JobError(
                f"reward.preference: task: {task_id} has no preference; `tutti derive "
                "task_set:ID --preferences` makes a set whose tasks have one"
            )
    return {task_id: json.loads(found[task_id]) for task_id in task_ids}


def _rewards(
    task_id: str, features: Sequence[AttemptFeatures], weights: Mapping[str, float]
) -> list[float]:
    try:
        return preference_rewards(features, weights)
    except RewardError as error:
        raise JobError(f"reward.preference of {task_id}: {error}") from error


def _features(
    row: Mapping[str, Any], used: Sequence[Mapping[str, Any]], weights: Mapping[str, float]
) -> AttemptFeatures:
    cost = row["cost_usd"]
    if cost is None and weights.get("cost"):
        raise JobError(
            f"reward.preference.cost: the cost of {row['attempt_id']} is unknown; give the prices "
            "of its models in models.yaml, or no weight for cost"
        )
    uses = {each["name"]: each["uses"] for each in used}
    served = [each["name"] for each in used if each["served"]]
    return AttemptFeatures(row["is_right"], cost, row["working_s"], uses, served)


ByTurn = Mapping[str, Callable[[int], float]]
"""By attempt: the advantage of a turn."""


@dataclass(frozen=True)
class StepBatch:
    """What a step trains on."""

    rows: list[dict[str, Any]]
    figures: Mapping[str, float]
    """Of all the step's attempts, by the names of `train_steps`."""
    said: Mapping[str, Any]
    """More about it: groups by reason, breaks, truncated calls."""


@dataclass(frozen=True)
class StepGroups:
    """The groups of a step, sorted into those that teach something and the others."""

    groups: Groups
    picks: Picks
    """Of the attempts with a reward and a verdict; empty where attempts have one advantage each."""
    sorted: Filtered


def step_groups(cells: Sequence[str], job: PolicyJob, home: Home, seed: int) -> StepGroups:
    """The groups of finished cells. Raises JobError where a reward is no number."""
    reward = job.reward
    groups = earned_by(cells, reward, home)
    if reward.permuted:
        groups = permuted(groups, seed)
    picks: Picks = {}
    if job.by_turns:
        names = [each.attempt_id for each in _rewarded(groups)]
        picks = read_picks(reward.process, names, home)
    rollouts = {task_id: _rollouts(group, picks, job) for task_id, group in groups.items()}
    found = filtered(rollouts, reward.least_deviation)
    return StepGroups(groups, picks, found)


def step_batch(found: StepGroups, job: PolicyJob, ends: frozenset[int], home: Home) -> StepBatch:
    """The batch of a step's groups. `ends`: ids that end a turn."""
    kept = {
        task_id: [each for each in group if each.reward is not None]
        for task_id, group in found.groups.items()
        if task_id in found.sorted.kept
    }
    advantages = _by_turn(kept, found.picks, job) if job.by_turns else _by_attempt(kept, job.reward)
    names = list(advantages)
    rows: list[dict[str, Any]] = []
    every: list[AttemptSequences] = []
    reasons: dict[str, str] = {}
    for place, sequences in read_sequences(names, ends, home, reasons):
        value_of = advantages[names[place]]
        every.append(sequences)
        for each in sequences.sequences:
            values = [0.0 if turn == NOT_TRAINED else value_of(turn) for turn in each.turns]
            rows.append(row_of(names[place], each, values))
    rewards = [each.reward or 0.0 for each in _rewarded(found.groups)]
    attempts = sum(len(group) for group in found.groups.values())
    figures = {
        "reward": sum(rewards) / max(1, len(rewards)),
        "groups": float(len(kept)),
        "dead_group_share": found.sorted.dead_share,
    }
    said = {**counts_of(every), "groups": found.sorted.counts()}
    said |= {"attempts": attempts, "infra": attempts - len(rewards)}
    said |= {"unrecorded": sum(why == UNRECORDED for why in reasons.values())}
    return StepBatch(rows, figures, said)


def write_batch(batch: StepBatch, file: Path) -> None:
    """Write the rows whole or not at all: the trainer takes the file when it appears."""
    temporary = file.with_suffix(".tmp")
    pq.write_table(pa.Table.from_pylist(batch.rows, ROW), temporary)
    temporary.replace(file)


def _rewarded(groups: Groups) -> list[Rollout]:
    return [each for group in groups.values() for each in group if each.reward is not None]


def _rollouts(group: Sequence[Rollout], picks: Picks, job: PolicyJob) -> list[Rollout]:
    """A group as the filters see it: where turns differ, attempts of one outcome may still teach.

    With turns, an attempt's reward is the return of its first turn.
    """
    if not job.by_turns:
        return list(group)
    judged = [each for each in group if each.attempt_id in picks]
    dialogues = aligned([_dialogue(each, picks) for each in judged])
    returns = {
        each.attempt_id: _turn_returns(dialogue, job.reward)
        for each, dialogue in zip(judged, dialogues, strict=True)
    }
    return [
        replace(
            each,
            reward=every[0] if (every := returns.get(each.attempt_id)) else each.reward,
            judged=each.attempt_id in picks,
        )
        for each in group
    ]


def _dialogue(each: Rollout, picks: Picks) -> Dialogue:
    return Dialogue(each.reward or 0.0, picks[each.attempt_id])


def _turn_returns(dialogue: Dialogue, reward: RewardSettings) -> list[float]:
    try:
        return turn_returns(dialogue, reward.gamma, reward.picked)
    except RewardError as error:
        raise JobError(f"reward: {error}; turns discount an outcome from 0 to 1") from None


def _by_turn(kept: Groups, picks: Picks, job: PolicyJob) -> ByTurn:
    found: dict[str, Callable[[int], float]] = {}
    for group in kept.values():
        dialogues = [_dialogue(each, picks) for each in group]
        every = turn_advantages(dialogues, job.reward.gamma, job.reward.picked)
        found |= {
            each.attempt_id: values.__getitem__ for each, values in zip(group, every, strict=True)
        }
    return found


def _by_attempt(kept: Groups, reward: RewardSettings) -> ByTurn:
    groups = list(kept.values())
    rewards = [[each.reward or 0.0 for each in group] for group in groups]
    if reward.advantage == "whitened":
        values = whitened(rewards)
    elif reward.advantage == "decoupled":
        values = [_decoupled(group, reward) for group in groups]
    else:
        values = [ADVANTAGES[reward.advantage](each) for each in rewards]
    named = zip(
        (each.attempt_id for group in groups for each in group),
        (value for group in values for value in group),
        strict=True,
    )
    return {name: _always(value) for name, value in named}


def _decoupled(group: Sequence[Rollout], reward: RewardSettings) -> list[float]:
    names = list(group[0].parts)
    parts = {name: [each.parts[name] for each in group] for name in names}
    return decoupled(parts, {name: weight_of(name, reward) for name in names})


def _always(value: float) -> Callable[[int], float]:
    return lambda turn: value
