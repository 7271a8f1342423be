"""The scorer of rows that are only generated: no score, neither right nor wrong."""

from collections.abc import Mapping
from typing import Any

from tutti.tasks.scoring.score import Needs, Score, ScorerFailed, ScoringResources, Submission


class Unscored:
    """Marks a task whose answers are not scored; it is not in `SCORERS`, and nobody calls it."""

    name = "none"
    version = "1"
    needs: Needs = "pure"

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """Raises ScorerFailed."""
        raise ScorerFailed("none: these rows are not scored; name a scorer with --scorer")


UNSCORED = Unscored()
