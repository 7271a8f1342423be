"""Scoring of a text outside the platform, for the reward functions of other trainers."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

from tutti.tasks.scoring import SCORERS
from tutti.tasks.scoring.rules.score import Score, ScorerFailed, ScoringResources, Submission


def score_text(truth: str, text: str) -> Score:
    """Score the last message of an attempt, as the platform does, in any thread.

    `truth`: ``{"scorer": name, "version": its version, "target": {...}}``. Raises ScorerFailed.
    """
    asked = json.loads(truth)
    scorer = SCORERS[asked["scorer"]]
    if scorer.needs != "pure" or scorer.version != asked["version"]:
        raise ScorerFailed(
            f"{scorer.name}: is version {scorer.version} ({scorer.needs}) here; the truth was "
            f"written for version {asked['version']}; write the configuration anew"
        )
    work = scorer.score(asked["target"], Submission(text or None, text), ScoringResources())
    with ThreadPoolExecutor(1) as own_loop:  # the caller's thread may have a loop that runs
        return own_loop.submit(asyncio.run, work).result()
