"""Clustered unit vectors and passages for the tests, all from fixed seeds."""

import numpy as np
from numpy.typing import NDArray

from tutti.tasks.retrieval.passage import Passage

WORDS = "amber birch cobalt delta ember fjord garnet harbor iris jasper kelp lotus".split()


def clustered(count: int, dimensions: int = 32, seed: int = 0) -> NDArray[np.float32]:
    """Return `count` unit vectors around 20 centres."""
    draw = np.random.default_rng(seed)
    centres = draw.normal(size=(20, dimensions))
    points = centres[draw.integers(0, 20, count)] + 0.3 * draw.normal(size=(count, dimensions))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points.astype(np.float32)


def passages(count: int, per_source: int = 4) -> list[Passage]:
    """Return `count` passages of a few words each, with `per_source` chunks per source."""
    draw = np.random.default_rng(1)
    return [
        Passage(
            id=f"p{nth}",
            text=" ".join(draw.choice(WORDS, 8).tolist()) + f" number{nth}",
            title=f"title{nth}",
            source=f"book{nth // per_source}",
            position=nth % per_source,
        )
        for nth in range(count)
    ]
