"""Input checks: numbers as arrays, repeats averaged per task, labels as numbers."""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Groups = Sequence[Sequence[float]] | Array
"""Scores of tasks: one sequence of trials per task, or an array of tasks by trials."""
Clusters = Sequence[Hashable]
"""One label per task; tasks with the same label (a document, a template) form a cluster."""


def numbers(given: ArrayLike, what: str, least: int = 1) -> Array:
    """`given` as an array of at least `least` finite numbers. ValueError names `what` is wrong."""
    values = np.asarray(given, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"{what}: one number each is needed, not shape {values.shape}")
    if len(values) < least:
        raise ValueError(f"{what}: {len(values)} values, at least {least} are needed")
    if not np.isfinite(values).all():
        raise ValueError(f"{what}: value {int(np.argmin(np.isfinite(values)))} is not finite")
    return values


def task_means(groups: Groups, what: str = "tasks") -> Array:
    """The mean of each task's trials, shape (tasks,). ValueError for none, empty, or not finite."""
    if isinstance(groups, np.ndarray) and groups.ndim == 2 and groups.size:
        return numbers(groups.mean(axis=1), what)
    for place, group in enumerate(groups):
        if len(group) == 0:
            raise ValueError(f"{what}: task {place} has no trials")
    return numbers([float(np.mean(group)) for group in groups], what)


def cluster_numbers(clusters: Clusters | None, n: int) -> NDArray[np.intp]:
    """Labels as 0, 1, …, in order of first occurrence; without labels each task is its own
    cluster."""
    if clusters is None:
        return np.arange(n)
    if len(clusters) != n:
        raise ValueError(f"{len(clusters)} clusters for {n} tasks")
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(label, len(known)) for label in clusters], dtype=np.intp)
