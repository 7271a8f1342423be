"""Reciprocal rank fusion: one ranking out of several, from their ranks alone.

A document's score is the sum, over the rankings that hold it, of 1 / (60 + its rank from 1).
Source: Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual
rank learning methods", SIGIR 2009, who found 60 and how little it matters. Left out: weights of
rankings.
"""

from collections.abc import Sequence

RANK_CONSTANT = 60


def fuse_ranks(rankings: Sequence[Sequence[int]], k: int) -> list[tuple[int, float]]:
    """The `k` best (row, score) over `rankings` (rows, best first, each at most once a ranking).

    Equal scores by row, the lower first.
    """
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, row in enumerate(ranking, 1):
            scores[row] = scores.get(row, 0.0) + 1 / (RANK_CONSTANT + rank)
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k]
