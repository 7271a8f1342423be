"""Which texts are nearest to another, by the local embedder."""

from collections.abc import Sequence

import numpy as np

from tutti.tasks.retrieval.embedder import HashedNgrams

AT_ONCE = 1_024


class NearnessIndex:
    """Texts embedded once, to which others are compared. The weights of words are learned from the
    texts of the index alone."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._embedder = HashedNgrams.fit(texts)
        parts = [texts[first : first + AT_ONCE] for first in range(0, len(texts), AT_ONCE)]
        self._known = np.concatenate([self._embedder.embed(part) for part in parts])

    def nearest(self, text: str, most: int) -> list[tuple[int, float]]:
        """Places of the nearest texts with their cosines, nearest first."""
        cosines = self._known @ self._embedder.embed([text])[0]
        order = np.argsort(-cosines, kind="stable")[:most]
        return [(int(place), float(cosines[place])) for place in order]
