"""Asking a judge: votes with their texts and the ids of their calls.

`tutti.tasks.agents.verdicts` parses the verdicts.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tutti.tasks.agents import read_verdict
from tutti.tasks.scoring.score import (
    JudgeClient,
    JudgeSettings,
    ScorerFailed,
    ScoringResources,
)

REFUSED = (400, 422)
"""Statuses of an endpoint that does not accept a field of a request."""


@dataclass(frozen=True)
class Vote:
    """One answer of the judge."""

    label: str | None
    """None if the verdict could not be read."""
    text: str
    call_id: str
    seed: int

    def audit(self) -> dict[str, Any]:
        """The vote as a row of the score's detail."""
        return {
            "label": self.label,
            "text": self.text,
            "call_id": self.call_id,
            "seed": self.seed,
        }


def judge_of(resources: ScoringResources) -> JudgeClient:
    """The run's judge. Raises ScorerFailed if there is none."""
    if resources.judge is None:
        raise ScorerFailed("needs a judge")
    return resources.judge


async def reply_of(
    judge: JudgeClient, prompt: str, seed: int, settings: JudgeSettings | None = None
) -> tuple[str, str]:
    """The judge's text and the id of its call. Raises ScorerFailed if the call fails."""
    from tutti.tasks.agents import ContextExceeded, ModelCallFailed

    try:
        return await judge.ask(prompt, seed, settings)
    except (ModelCallFailed, ContextExceeded) as error:
        raise ScorerFailed(f"the judge's call failed: {error}") from error


async def reply_by_schema(
    judge: JudgeClient, prompt: str, seed: int, settings: JudgeSettings
) -> tuple[str, str, Literal["schema", "text"]]:
    """As `reply_of`, and how the judge was asked: in text where its endpoint refuses the schema.

    Raises ScorerFailed if the call fails.
    """
    from tutti.tasks.agents import ModelCallFailed

    try:
        return *await reply_of(judge, prompt, seed, settings), "schema"
    except ScorerFailed as failure:
        cause = failure.__cause__
        if not isinstance(cause, ModelCallFailed) or cause.status not in REFUSED:
            raise
    return *await reply_of(judge, prompt, seed, replace(settings, schema=None)), "text"


async def ask(
    judge: JudgeClient, prompt: str, labels: Sequence[str], seeds: Sequence[int], material: str = ""
) -> list[Vote]:
    """Ask for one vote per seed, concurrently. Raises ScorerFailed if a call fails.

    `material`: the untrusted part of the prompt, see `read_verdict`.
    """

    async def one(seed: int) -> Vote:
        text, call_id = await reply_of(judge, prompt, seed)
        return Vote(read_verdict(text, labels, material), text, call_id, seed)

    try:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(one(seed)) for seed in seeds]
    except* ScorerFailed as failures:
        raise ScorerFailed(str(failures.exceptions[0])) from failures
    return [task.result() for task in asked]


def majority(votes: Sequence[Vote]) -> Vote:
    """The first vote of the label with most valid votes.

    Raises ScorerFailed for a tie, or without a valid vote, with the judge's words.
    """
    counts: dict[str, int] = {}
    for vote in votes:
        if vote.label is not None:
            counts[vote.label] = counts.get(vote.label, 0) + 1
    best = max(counts.values(), default=0)
    winners = [label for label, count in counts.items() if count == best]
    if len(winners) != 1:
        what = f"a tie: {counts}" if winners else "no valid vote"
        ends = [vote.text[-80:] for vote in votes]
        raise ScorerFailed(f"{what}; the judge's last words: {ends}")
    return next(vote for vote in votes if vote.label == winners[0])
