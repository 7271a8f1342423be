"""Which texts are near others, by the local embedder: to find tasks that repeat held-out ones."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tutti.tasks.retrieval.embedder import HashedNgrams

AT_ONCE = 1_024


class NearnessIndex:
    """Texts embedded once, to which others are compared. The weights of words are learned from the
    texts of the index alone."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._embedder = HashedNgrams.fit(texts)
        parts = [texts[first : first + AT_ONCE] for first in range(0, len(texts), AT_ONCE)]
        self._known = np.concatenate([self._embedder.embed(part) for part in parts]).T

    def cosines(self, texts: Sequence[str], among: Sequence[int]) -> NDArray[np.float32]:
        """The cosine of each text to each of the texts at the places `among`; shape
        [len(texts), len(among)]."""
        found: NDArray[np.float32] = self._embedder.embed(texts) @ self._known[:, list(among)]
        return found


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
