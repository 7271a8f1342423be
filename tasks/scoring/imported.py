"""Uses the harness's own score of an attempt, for tasks that only the harness can score.

The harness's score is always a row of `scores` under its own name; with this scorer it is the
attempt's score too. A stored sweep cannot be scored again with it, because the score comes only
with the attempt.
"""

from collections.abc import Mapping
from typing import Any

from tutti.tasks.scoring.score import Needs, Score, ScorerFailed, ScoringResources, Submission


class ImportedScore:
    """Takes the score that the harness reported."""

    name: str = "imported"
    version: str = "1"
    needs: Needs = "pure"

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """The score that came with the attempt. Raises ScorerFailed if there is none."""
        if submission.imported is None:
            raise ScorerFailed("the harness that made the attempt gave no score with it")
        return submission.imported
