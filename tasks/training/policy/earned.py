"""What the attempts of a step earned, task by task.

In: the step's cells and a job's reward. Out: groups of attempts with their rewards, by their newest
verdicts. An attempt that does not count (it failed for infrastructure reasons, or came too late)
has no reward; it is never scored 0.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tutti.storage import Home, query
from tutti.tasks.training.job import JobError, rows_of
from tutti.tasks.training.policy.reward import RewardSettings
from tutti.tasks.training.rewards import (
    AttemptFeatures,
    RewardError,
    overlong,
    preference_rewards,
)

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


@dataclass(frozen=True)
class Earned:
    """An attempt and its reward."""

    attempt_id: str
    reward: float | None
    """None: it is in no group."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """What it is the weighted sum of, by name."""
    valid: bool = True
    """Whether a call of it could be read at all."""


Groups = dict[str, list[Earned]]
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


def _earned(row: Mapping[str, Any], settings: RewardSettings) -> Earned:
    name = row["attempt_id"]
    if not row["counted"]:
        return Earned(name, None)
    parts = dict(row["parts"])
    if settings.overlong is not None:
        asked = settings.overlong
        tokens = row["completion_tokens"]
        if tokens is None:
            raise JobError(f"reward.overlong: the completion tokens of {name} are unknown")
        parts["overlong"] = overlong(tokens, asked.most_tokens, asked.buffer_tokens)
    valid = row["status"] != "model_error"
    total = sum(weight_of(part, settings) * value for part, value in parts.items())
    return Earned(name, total, parts, valid)


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
