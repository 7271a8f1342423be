"""Tests of all scorers: names equal those of the registry, and an invalid target is an error."""

import pytest

from tutti.tasks.scoring import SCORERS, ScorerFailed, ScoringResources, Submission


@pytest.mark.parametrize("name", SCORERS)
async def test_each_scorer(name: str) -> None:
    scorer = SCORERS[name]
    assert scorer.name == name and scorer.version
    assert scorer.needs in ("pure", "sandbox", "judge")
    with pytest.raises(ScorerFailed):
        await scorer.score({}, Submission("an answer", "an answer"), ScoringResources())
