"""Asking a judge: votes with their words and the ids of their calls, verdicts read strictly.

A verdict is the judge's last line that is not empty, and must be ``Verdict: LABEL`` with one of the
labels asked for; anything else is no valid vote, and is kept as such. Bold, quotation marks, code
and ``>`` around it or around its parts change nothing.

A last line that is quoted (by ``>``, quotation marks or a fence; not by backticks, which is how it
is asked for) may be what the judge cites from the material, which the attempt wrote. It is no vote
where the material has a verdict in it, or where the judge gave another one in its own words.
"""

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tutti.tasks.scoring.score import Asks, Means, ScorerFailed

_VERDICT = re.compile(r"verdict:\s*(?P<label>[A-Za-z_]+|-?[0-9]+)\.?", re.IGNORECASE)
_NAMED = re.compile(r"\bverdict\W{0,9}:", re.IGNORECASE)
_EMPHASIS = re.compile(r"[*`]+|(?<![^\W_])_+|_+(?![^\W_])")  # but not the one in not_attempted
_QUOTES = re.compile("[\"'\u201c\u201d\u2018\u2019\u00ab\u00bb]+|^>[> ]*")
_FENCE = re.compile(r"(?:```|~~~)\S*")


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


async def ask(
    judge: Asks, prompt: str, labels: Sequence[str], seeds: Sequence[int], material: str = ""
) -> list[Vote]:
    """One vote a seed, asked at once. Raises ScorerFailed where a call fails.

    `material`: the part of the prompt that others wrote, see `read_verdict`.
    """
    from tutti.tasks.agents import ContextExceeded, ModelCallFailed

    async def one(seed: int) -> Vote:
        try:
            text, call_id = await judge.ask(prompt, seed)
        except (ModelCallFailed, ContextExceeded) as error:
            raise ScorerFailed(f"the judge's call failed: {error}") from error
        return Vote(read_verdict(text, labels, material), text, call_id, seed)

    try:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(one(seed)) for seed in seeds]
    except* ScorerFailed as failures:
        raise ScorerFailed(str(failures.exceptions[0])) from failures
    return [task.result() for task in asked]


def read_verdict(text: str, labels: Sequence[str], material: str = "") -> str | None:
    """The label in the last line, by its spelling in `labels`; None where it is not there.

    `material`: what was judged, whose verdicts are not the judge's.
    """
    known = {label.lower(): label for label in labels}
    lines = _lines(text)
    last = known.get(_label(lines[-1][0]) or "") if lines else None
    if last is None or not lines[-1][1]:
        return last
    own = {known.get(_label(line) or "") for line, quoted in lines if not quoted}
    cited = _NAMED.search(material) is not None
    return None if cited or own - {last, None} else last


def _lines(text: str) -> list[tuple[str, bool]]:
    """The lines of `text` that hold more than marks, without these, and whether each is quoted."""
    found, fenced_in = [], False
    for line in text.splitlines():
        bare = _EMPHASIS.sub("", line.replace("\\_", "_")).strip(" #\t")
        if _FENCE.fullmatch(line.strip()):
            fenced_in = not fenced_in
        elif plain := _QUOTES.sub("", bare).strip(" #"):
            found.append((plain, fenced_in or plain != bare))
    return found


def _label(line: str) -> str | None:
    match = _VERDICT.fullmatch(line)
    return match["label"].lower() if match else None


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
