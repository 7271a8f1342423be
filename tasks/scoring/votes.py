"""Asking a judge: votes with their words and the ids of their calls, verdicts read strictly.

A verdict is the judge's last line that is not empty, and must be ``Verdict: LABEL`` with one of the
labels asked for; anything else is no valid vote, and is kept as such.
"""

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.scoring.score import Asks, Means, ScorerFailed

_VERDICT = re.compile(r"verdict:\s*(?P<label>[A-Za-z_]+|-?[0-9]+)\.?", re.IGNORECASE)


@dataclass(frozen=True)
class Vote:
    """One answer of the judge."""

    label: str | None
    """None where the verdict could not be read."""
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


def judge_of(means: Means) -> Asks:
    """The run's judge. Raises ScorerFailed where there is none."""
    if means.judge is None:
        raise ScorerFailed("needs a judge")
    return means.judge


async def ask(judge: Asks, prompt: str, labels: Sequence[str], seeds: Sequence[int]) -> list[Vote]:
    """One vote a seed, asked at once. Raises ScorerFailed where a call fails."""
    from tasks.agents.model import ContextExceeded, ModelCallFailed  # its HTTP client takes 0.1 s

    async def one(seed: int) -> Vote:
        try:
            text, call_id = await judge.ask(prompt, seed)
        except (ModelCallFailed, ContextExceeded) as error:
            raise ScorerFailed(f"the judge's call failed: {error}") from error
        return Vote(read_verdict(text, labels), text, call_id, seed)

    try:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(one(seed)) for seed in seeds]
    except* ScorerFailed as failures:
        raise ScorerFailed(str(failures.exceptions[0])) from failures
    return [task.result() for task in asked]


def read_verdict(text: str, labels: Sequence[str]) -> str | None:
    """The label in the last line, by its spelling in `labels`; None where it is not there."""
    lines = [line.strip(" *`_#") for line in text.splitlines() if line.strip()]
    match = _VERDICT.fullmatch(lines[-1]) if lines else None
    known = {label.lower(): label for label in labels}
    return known.get(match["label"].lower()) if match else None


def majority(votes: Sequence[Vote]) -> Vote:
    """The first vote of the label with most valid votes.

    Raises ScorerFailed for a tie, or where no vote is valid, with the judge's words.
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


def fenced(parts: Mapping[str, str]) -> str:
    """Texts for a judge's prompt, each between marks that none of them holds.

    The marks depend on the texts, so that an answer cannot close its own part and go on as us.
    """
    digest = hashlib.sha256("\0".join(parts.values()).encode("utf-8", "replace")).hexdigest()[:12]
    return "\n".join(
        f"<{name}-{digest}>\n{text}\n</{name}-{digest}>" for name, text in parts.items()
    )


def verdict_line(labels: Sequence[str]) -> str:
    """The sentence that asks for a verdict."""
    options = " or ".join(f"`Verdict: {label}`" for label in labels)
    return f"Give your reasons in short, then end with a line that is exactly {options}."
