"""A step's batch: its attempts as groups, rewards, advantages and sequences.

Rewards come from the newest verdicts. An attempt that does not count (it failed for infrastructure
reasons, or came too late) has no reward; it is never scored 0.
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
from tutti.tasks.training.jobs.job import JobError, rows_of
from tutti.tasks.training.jobs.rewards import (
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
from tutti.tasks.training.policy.job import PolicyJob, RewardSettings
from tutti.tasks.training.policy.picks import Picks, read_picks
from tutti.tasks.training.sets.chosen import counts_of, read_sequences, row_of
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
    """Return the groups of finished cells. Raises JobError for a reward that is not a number."""
    rows = _rows(cells, settings, home)
    groups: Groups = {}
    for row in rows:
        groups.setdefault(row["task_id"], []).append(_earned(row, settings))
    if settings.preference:
        return _preferred(groups, {row["attempt_id"]: row for row in rows}, settings, home)
    return groups


def permuted(groups: Groups, seed: int) -> Groups:
    """Return the same groups with the rewards shuffled within each group."""
    mixed: Groups = {}
    for task_id, group in groups.items():
        rewarded, others = _rewarded(group), [each for each in group if each.reward is None]
        dealt = list(rewarded)
        Random(f"{seed} {task_id}").shuffle(dealt)
        pairs = zip(rewarded, dealt, strict=True)
        mixed[task_id] = [replace(new, attempt_id=old.attempt_id) for old, new in pairs] + others
    return mixed


def _rows(cells: Sequence[str], settings: RewardSettings, home: Home) -> list[dict[str, Any]]:
    """Return attempts; those that count have the value of each part of the reward."""
    expressions = {name: part.sql for name, part in settings.parts.items()}
    expressions = expressions or ({} if settings.preference else {"sql": settings.sql})
    columns = "".join(
        f", cast(({sql}) as double) as part_{nth}" for nth, sql in enumerate(expressions.values())
    )
    statement = (
        "with rewarded as (select cell_id, attempt_id, completion_tokens, is_right, cost_usd, "
        f"working_s{columns} from counted where cell_id in (select unnest($cells))) "
        "select a.task_id, a.attempt_id, a.status, r.* exclude (cell_id, attempt_id), "
        "r.attempt_id is not null as counted from attempts a left join rewarded r "
        "on r.cell_id = a.cell_id and r.attempt_id = a.attempt_id "
        "where a.cell_id in (select unnest($cells)) order by a.task_id, a.trial, a.attempt"
    )
    field = "reward.parts" if settings.parts else "reward.sql"
    rows = rows_of(statement, home, field, {"cells": list(cells)})
    for row in rows:
        row["parts"] = {name: row[f"part_{nth}"] for nth, name in enumerate(expressions)}
        for name, value in row["parts"].items():
            if row["counted"] and value is None:
                raise JobError(f"{field}: {name}: null for {row['attempt_id']}; use coalesce")
    return rows


def _earned(row: Mapping[str, Any], settings: RewardSettings) -> Rollout:
    name = row["attempt_id"]
    if not row["counted"]:
        return Rollout(name, None)
    parts, longest, tokens = dict(row["parts"]), settings.overlong, row["completion_tokens"]
    if longest is not None:
        if tokens is None:
            raise JobError(f"reward.overlong: the completion tokens of {name} are unknown")
        parts["overlong"] = overlong(tokens, longest.most_tokens, longest.buffer_tokens)
    total = sum(settings.weight_of(part) * value for part, value in parts.items())
    return Rollout(name, total, row["status"] != "model_error", parts=parts)


def _preferred(
    groups: Groups, rows: Mapping[str, Mapping[str, Any]], settings: RewardSettings, home: Home
) -> Groups:
    """Add to each attempt's reward its preference reward within its group."""
    used: dict[str, list[dict[str, Any]]] = {}
    for row in query(USES, home, {"ids": list(rows)}):
        used.setdefault(row["attempt_id"], []).append(row)
    own: Mapping[str, str | None] = {}
    if settings.preference == "task":
        found = query(WEIGHTS, home, {"ids": list(groups)})
        own = {row["task_id"]: row["weights"] for row in found}
    preferred: Groups = {}
    for task_id, group in groups.items():
        weights = settings.preference
        if weights == "task":
            if not (text := own.get(task_id)):
                raise JobError(
                    f"reward.preference: task: {task_id} has no preference; `tutti derive "
                    "task_set:ID --preferences` makes a set whose tasks have one"
                )
            weights = json.loads(text)
        rewarded, others = _rewarded(group), [each for each in group if each.reward is None]
        names = [each.attempt_id for each in rewarded]
        try:
            features = [_features(rows[name], used.get(name, ()), weights) for name in names]
            values = preference_rewards(features, weights)
        except RewardError as error:
            raise JobError(f"reward.preference of {task_id}: {error}") from error
        pairs = zip(rewarded, values, strict=True)
        preferred[task_id] = [
            *(replace(each, reward=value + (each.reward or 0.0)) for each, value in pairs),
            *others,
        ]
    return preferred


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


@dataclass(frozen=True)
class StepBatch:
    """The training data of a step."""

    rows: list[dict[str, Any]]
    figures: Mapping[str, float]
    """Of all the step's attempts, by the names of `train_steps`."""
    said: Mapping[str, Any]
    """More about it: groups by reason, breaks, truncated calls."""


@dataclass(frozen=True)
class StepGroups:
    """The groups of a step, split into those to train on and the others."""

    groups: Groups
    picks: Picks
    """Of the attempts with a reward and a verdict; empty where attempts have one advantage each."""
    sorted: Filtered


def step_groups(cells: Sequence[str], job: PolicyJob, home: Home, seed: int) -> StepGroups:
    """Return the groups of finished cells. Raises JobError for a reward that is not a number."""
    reward = job.reward
    groups = earned_by(cells, reward, home)
    if reward.permuted:
        groups = permuted(groups, seed)
    if not job.by_turns:
        return StepGroups(groups, {}, filtered(groups, reward.least_deviation))
    names = [each.attempt_id for group in groups.values() for each in _rewarded(group)]
    picks = read_picks(reward.process, names, home)
    by_turns = {task_id: _by_turns(group, picks, reward) for task_id, group in groups.items()}
    return StepGroups(groups, picks, filtered(by_turns, reward.least_deviation))


def _by_turns(group: Sequence[Rollout], picks: Picks, reward: RewardSettings) -> list[Rollout]:
    """Return a group for the filters: an attempt's reward is the return of its first turn, so that
    attempts with equal outcomes may still teach."""
    judged = [each for each in group if each.attempt_id in picks]
    firsts: dict[str, float] = {}
    try:
        for each, dialogue in zip(judged, aligned(_dialogues(judged, picks)), strict=True):
            if turns := turn_returns(dialogue, reward.gamma, reward.picked):
                firsts[each.attempt_id] = turns[0]
    except RewardError as error:
        raise JobError(f"reward: {error}; turns discount an outcome from 0 to 1") from None
    return [
        replace(
            each,
            reward=firsts.get(each.attempt_id, each.reward),
            judged=each.attempt_id in picks,
        )
        for each in group
    ]


def _dialogues(group: Sequence[Rollout], picks: Picks) -> list[Dialogue]:
    return [Dialogue(each.reward or 0.0, picks[each.attempt_id]) for each in group]


def step_batch(step: StepGroups, job: PolicyJob, ends: frozenset[int], home: Home) -> StepBatch:
    """Return the batch of a step's groups. `ends`: ids that end a turn."""
    kept = [
        _rewarded(group) for task_id, group in step.groups.items() if task_id in step.sorted.kept
    ]
    advantage_of = (
        _turn_advantages(kept, step.picks, job) if job.by_turns else _advantages(kept, job)
    )
    names = [each.attempt_id for group in kept for each in group]
    rows: list[dict[str, Any]] = []
    every: list[AttemptSequences] = []
    reasons: dict[str, str] = {}
    for place, sequences in read_sequences(names, ends, home, reasons):
        name = names[place]
        every.append(sequences)
        for each in sequences.sequences:
            values = [
                0.0 if turn == NOT_TRAINED else advantage_of(name, turn) for turn in each.turns
            ]
            rows.append(row_of(name, each, values))
    groups = step.groups.values()
    rewards = [each.reward or 0.0 for group in groups for each in _rewarded(group)]
    attempts = sum(map(len, groups))
    figures = {"reward": sum(rewards) / max(1, len(rewards)), "groups": float(len(kept))}
    figures["dead_group_share"] = step.sorted.dead_share
    said = counts_of(every) | {"groups": step.sorted.counts(), "attempts": attempts}
    said["infra"] = attempts - len(rewards)
    return StepBatch(rows, figures, said)


def write_batch(batch: StepBatch, file: Path) -> None:
    """Write the rows completely or not at all: the trainer takes the file when it appears."""
    temporary = file.with_suffix(".tmp")
    pq.write_table(pa.Table.from_pylist(batch.rows, ROW), temporary)
    temporary.replace(file)


def _rewarded(group: Sequence[Rollout]) -> list[Rollout]:
    return [each for each in group if each.reward is not None]


AdvantageOf = Callable[[str, int], float]


def _turn_advantages(kept: Sequence[list[Rollout]], picks: Picks, job: PolicyJob) -> AdvantageOf:
    advantages: dict[str, list[float]] = {}
    for group in kept:
        turns = turn_advantages(_dialogues(group, picks), job.reward.gamma, job.reward.picked)
        advantages |= zip((each.attempt_id for each in group), turns, strict=True)
    return lambda name, turn: advantages[name][turn]


def _advantages(kept: Sequence[list[Rollout]], job: PolicyJob) -> AdvantageOf:
    """Return one advantage for all turns of an attempt."""
    reward = job.reward
    rewards = [[each.reward or 0.0 for each in group] for group in kept]
    if reward.advantage == "whitened":
        values = whitened(rewards)
    elif reward.advantage == "decoupled":
        values = []
        for group in kept:
            parts = {name: [each.parts[name] for each in group] for name in group[0].parts}
            values.append(decoupled(parts, {name: reward.weight_of(name) for name in parts}))
    else:
        values = [ADVANTAGES[reward.advantage](group) for group in rewards]
    advantages = {
        each.attempt_id: value
        for group, some in zip(kept, values, strict=True)
        for each, value in zip(group, some, strict=True)
    }
    return lambda name, turn: advantages[name]
