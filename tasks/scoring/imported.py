"""What a harness says of its own attempt, taken as it is: for tasks that only it can score.

The harness's score is a row of `scores` under its own name whatever the benchmark's scorer is; with
this one it is the attempt's score too. It can be given once: to score a stored sweep again there is
nothing left to read it from.
"""

from collections.abc import Mapping
from typing import Any

from tutti.tasks.scoring.score import Attempted, Means, Needs, Score, ScorerFailed


class Imported:
    """The harness's own score."""

    name: str = "imported"
    version: str = "1"
    needs: Needs = "pure"

    async def score(self, target: Mapping[str, Any], attempted: Attempted, means: Means) -> Score:
        """The score that came with the attempt. Raises ScorerFailed where none did."""
        if attempted.imported is None:
            raise ScorerFailed("the harness that made the attempt gave no score with it")
        return attempted.imported
