"""A step's batch: its attempts as groups, rewards, advantages and sequences.

In: finished cells. Out: rows for the trainer, and the step's figures.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tutti.storage import Home
from tutti.tasks.training.job import JobError
from tutti.tasks.training.policy.earned import Earned, Groups, earned_by, permuted, weight_of
from tutti.tasks.training.policy.job import PolicyJob
from tutti.tasks.training.policy.picks import Picks, read_picks
from tutti.tasks.training.policy.reward import RewardSettings
from tutti.tasks.training.rewards import (
    ADVANTAGES,
    Dialogue,
    Filtered,
    RewardError,
    Rollout,
    aligned,
    decoupled,
    filtered,
    turn_advantages,
    turn_returns,
    whitened,
)
from tutti.tasks.training.sets.frozen import ROW
from tutti.tasks.training.sets.recorded import UNRECORDED, counts_of, read_sequences, row_of
from tutti.tasks.training.sets.sequences import NOT_TRAINED, AttemptSequences

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


def _rewarded(groups: Groups) -> list[Earned]:
    return [each for group in groups.values() for each in group if each.reward is not None]


def _rollouts(group: Sequence[Earned], picks: Picks, job: PolicyJob) -> list[Rollout]:
    """A group as the filters see it: where turns differ, attempts of one outcome may still teach.

    With turns, an attempt's reward is the return of its first turn.
    """
    if not job.by_turns:
        return [Rollout(each.attempt_id, each.reward, each.valid) for each in group]
    judged = [each for each in group if each.attempt_id in picks]
    dialogues = aligned([_dialogue(each, picks) for each in judged])
    returns = {
        each.attempt_id: _turn_returns(dialogue, job.reward)
        for each, dialogue in zip(judged, dialogues, strict=True)
    }
    return [
        Rollout(
            each.attempt_id,
            every[0] if (every := returns.get(each.attempt_id)) else each.reward,
            each.valid,
            judged=each.attempt_id in picks,
        )
        for each in group
    ]


def _dialogue(each: Earned, picks: Picks) -> Dialogue:
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


def _decoupled(group: Sequence[Earned], reward: RewardSettings) -> list[float]:
    names = list(group[0].parts)
    parts = {name: [each.parts[name] for each in group] for name in names}
    return decoupled(parts, {name: weight_of(name, reward) for name in names})


def _always(value: float) -> Callable[[int], float]:
    return lambda turn: value
