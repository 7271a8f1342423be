"""Scorers: what an answer is worth. Adding one: a function, a line in `SCORERS`."""

from tasks.scoring.exact import EXACT, Score, score_exact

SCORERS = {EXACT: score_exact}

__all__ = ["EXACT", "SCORERS", "Score", "score_exact"]
