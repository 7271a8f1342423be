"""RULER's string match. Target: ``{"references": [text, ...], "match": "all" | "any"}``.

Value for ``all``: the share of the references that the response contains, case ignored; for
``any`` (RULER's question answering): 1 if it contains one of them, else 0. Correct: value 1.
Source: Hsieh et al. 2024, arXiv 2404.06654, and the publisher's program.
"""

from collections.abc import Mapping
from typing import Any

from tutti.tasks.scoring.score import Needs, Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.target import said, texts


class Ruler:
    """The share of the references that occur in the response."""

    name: str = "ruler"
    version: str = "1"
    needs: Needs = "pure"

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """Search the whole last message. Raises ScorerFailed for a target without references."""
        references, match = texts(target, "references"), target.get("match")
        if match not in ("all", "any"):
            raise ScorerFailed(f"the target's match is {match!r}; it must be 'all' or 'any'")
        response = said(submission).lower()
        missing = [one for one in references if one.lower() not in response]
        found = len(references) - len(missing)
        value = found / len(references) if match == "all" else float(found > 0)
        return Score(self.name, self.version, value, value == 1.0, detail={"missing": missing})
