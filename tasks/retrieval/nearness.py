"""Which texts are near others, by the local embedder: to find tasks that repeat held-out ones."""

from collections.abc import Sequence

import numpy as np

from tutti.tasks.retrieval.embedder import HashedNgrams

AT_ONCE = 1_024


def near_texts(texts: Sequence[str], others: Sequence[str], least: float) -> list[bool]:
    """Of each text, whether its largest cosine to one of `others` is at least `least`.

    The weights of words are learned from all of them, so what all share weighs little.
    """
    if not texts or not others:
        return [False] * len(texts)
    embedder = HashedNgrams.fit([*texts, *others])
    known = embedder.embed(others).T
    near: list[bool] = []
    for first in range(0, len(texts), AT_ONCE):
        cosines = embedder.embed(texts[first : first + AT_ONCE]) @ known
        near += (np.max(cosines, axis=1) >= least).tolist()
    return near
