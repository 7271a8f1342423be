"""Tests of the clustered standard error against statsmodels, and against the formula with all its
matrices."""

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tutti.tasks.scoring.statistics import spread
from tutti.tasks.scoring.statistics.means import _alike, _satterthwaite


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=40))
def test_single_tasks_have_the_plain_error(values: list[float]) -> None:
    """The error is s/√n with n - 1 degrees of freedom, as in scipy."""
    found = spread(values)
    assert found.se == pytest.approx(stats.sem(values), abs=1e-9)
    assert (found.df, found.n, found.clusters) == (len(values) - 1, len(values), len(values))


@settings(deadline=None)
@given(st.integers(2, 8), st.integers(1, 5), st.integers(0, 1000))
def test_clusters_of_one_size_are_statsmodels(clusters: int, size: int, seed: int) -> None:
    """The reference is `cov_type="cluster"` of a regression on a constant."""
    values = np.random.default_rng(seed).normal(0, 1, clusters * size)
    labels = np.repeat(np.arange(clusters), size)
    fitted = sm.OLS(values, np.ones(len(values))).fit(
        cov_type="cluster", cov_kwds={"groups": labels}
    )
    found = spread(values, labels.tolist())
    assert found.se == pytest.approx(fitted.bse[0], rel=1e-9)
    assert found.df == clusters - 1


@given(st.lists(st.integers(1, 9), min_size=2, max_size=7), st.integers(0, 1000))
def test_unequal_clusters_by_all_matrices(sizes: list[int], seed: int) -> None:
    """CR2 and Satterthwaite's degrees of freedom are computed with explicit adjustment matrices."""
    n = sum(sizes)
    values = np.random.default_rng(seed).normal(0, 1, n)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    residuals, variance = values - values.mean(), 0.0
    for g, size in enumerate(sizes):
        hat = np.eye(size) - np.full((size, size), 1 / n)
        lengths, axes = np.linalg.eigh(hat)
        root = axes @ np.diag(lengths**-0.5) @ axes.T
        variance += float(np.sum(root @ residuals[labels == g])) ** 2 / n**2
    found = spread(values, labels.tolist())
    assert found.se == pytest.approx(variance**0.5, rel=1e-9)
    share = np.array(sizes) / n
    centring = np.eye(len(sizes)) - np.outer(share, np.ones(len(sizes)))
    form = centring.T @ np.diag(1 / (1 - share)) @ centring
    sums = np.bincount(labels, weights=residuals).astype(float)
    alike = _alike(values, sums, np.array(sizes, dtype=float))
    spreads = np.diag(np.array(sizes) * (1 + alike * (np.array(sizes) - 1)))
    product = form @ spreads
    expected = np.trace(product) ** 2 / np.trace(product @ product)
    assert _satterthwaite(np.array(sizes, dtype=float), alike) == pytest.approx(expected, rel=1e-9)
    assert 0 < found.df <= len(sizes) - 1 + 1e-9


def test_one_cluster_says_nothing_of_others() -> None:
    """There is no standard error and no degrees of freedom."""
    assert spread([1.0, 2.0], ["a", "a"])[1:3] == (None, 0.0)


@pytest.mark.parametrize(
    ("values", "words"),
    [([], "at least 1"), ([1.0, float("inf")], "value 1 is not finite"), ([[1.0]], "shape")],
)
def test_refusals(values: list[float], words: str) -> None:
    """Errors are raised for empty, non-finite and multi-dimensional values."""
    with pytest.raises(ValueError, match=words):
        spread(values)
