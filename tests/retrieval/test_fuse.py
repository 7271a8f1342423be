"""Tests of reciprocal rank fusion: the formula and its invariances."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.retrieval.index import fuse_ranks

RANKINGS = st.lists(st.lists(st.integers(0, 30), unique=True), max_size=4)


def test_the_formula() -> None:
    fused = fuse_ranks([[7, 8], [8, 9]], 3)
    assert [row for row, _ in fused] == [8, 7, 9]
    assert fused[0][1] == 1 / 62 + 1 / 61 and fused[1][1] == 1 / 61


@given(rankings=RANKINGS, k=st.integers(1, 40))
def test_the_order_of_rankings_does_not_matter(rankings: list[list[int]], k: int) -> None:
    """Every row occurs once, scores are descending, and reversing the rankings' order changes no
    row."""
    fused = fuse_ranks(rankings, k)
    rows = [row for row, _ in fused]
    assert len(set(rows)) == len(rows) == min(k, len(set().union(*rankings, set())))
    assert all(a[1] >= b[1] for a, b in pairwise(fused))
    turned = dict(fuse_ranks(rankings[::-1], 100))
    assert all(abs(turned[row] - score) < 1e-12 for row, score in fused)
