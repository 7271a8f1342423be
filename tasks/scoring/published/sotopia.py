"""Sotopia's rule: seven dimensions, each rated in its published range; the score is their mean.

Target: as `Rubric`'s, of criteria with a ``range`` alone. The value is the mean of the ratings as
they are, from -4.29 to 5.71 of Sotopia's seven; correct: the best in each. The dimensions, their
ranges and the mean are the publisher's (`SotopiaDimensions`, 0.1.5). The words that ask for a
rating are tutti's, and each dimension of one person is a call, where the publisher has one call for
all of both. A person who said nothing is rated like any other.
"""

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from tutti.tasks.scoring.judged.rubric import Rubric, conversation_text
from tutti.tasks.scoring.judged.votes import judge_of
from tutti.tasks.scoring.score import Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.target import needed

SILENT = "assistant: (said nothing)"


class Sotopia(Rubric):
    """Asks a judge for the rating of each dimension."""

    name = "sotopia"
    version = "1"

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """The mean rating; the detail has each dimension with its range and votes.

        Raises ScorerFailed: no judge, a failed call, no valid vote, a criterion without a range.
        """
        response = conversation_text(submission) or SILENT
        parts = {"question": needed(target, "question", str), "response": response}
        judged: list[dict[str, Any]] = []
        call_id = None
        for criterion in needed(target, "criteria", list):
            _, found, votes = await self.judge(judge_of(resources), criterion, parts)
            if "rating" not in found:
                raise ScorerFailed(f"sotopia: no range: {criterion['text'][:80]!r}")
            call_id = call_id or votes[0].call_id
            audit = [vote.audit() for vote in votes]
            judged.append({"text": criterion["text"], **found, "votes": audit})
        value = fmean(each["rating"] for each in judged)
        correct = all(each["rating"] == each["range"][1] for each in judged)
        detail = {"criteria": judged}
        return Score(self.name, self.version, value, correct, detail=detail, judge_call_id=call_id)
