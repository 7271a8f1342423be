"""Takes an environment's own reward, such as the points of a game.

Target: ``{"pass": 1.0}``. The attempt's final state has ``reward``, 0 to 1; this is the value, and
the attempt is correct if it is at least ``pass``. Finishing alone earns nothing.
"""

import math
from collections.abc import Mapping
from typing import Any

from tutti.tasks.scoring.score import Needs, Score, ScorerFailed, ScoringResources, Submission


class Reward:
    """Takes the environment's reward."""

    name: str = "reward"
    version: str = "1"
    needs: Needs = "pure"

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """The reward; the detail has the rest of the final state.

        Raises ScorerFailed if the attempt has no reward, or one outside 0 to 1.
        """
        state = dict(submission.state or {})
        value = state.pop("reward", None)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ScorerFailed("reward: the attempt's final state has no reward")
        if not (math.isfinite(value) and 0.0 <= value <= 1.0):
            raise ScorerFailed(f"reward: {value} is not between 0 and 1")
        correct = value >= float(target.get("pass", 1.0))
        return Score(self.name, self.version, float(value), correct, detail=state)
