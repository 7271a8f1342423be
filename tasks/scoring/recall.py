"""Recall of a retrieval: which of the wanted documents were found.

Target: ``{"doc_ids": [...], "k": 10}``, `k` for each search; without it all results count. What
was found: ``state["retrieved"]``, a list of doc ids a search, best first. A flat list is one
search. Value: found / wanted, over all searches together; correct: all were found.
"""

from collections.abc import Mapping
from typing import Any

from tutti.tasks.scoring.score import Attempted, Means, Needs, Score, ScorerFailed
from tutti.tasks.scoring.target import needed


class Recall:
    """The searches found the documents that the answer needs."""

    name: str = "recall"
    version: str = "1"
    needs: Needs = "pure"

    async def score(self, target: Mapping[str, Any], attempted: Attempted, means: Means) -> Score:
        """Share of the wanted documents within the first `k` of any search; 0 without a search.

        Raises ScorerFailed where the target wants none or the attempt carries no ``retrieved``.
        """
        wanted = {str(doc_id) for doc_id in needed(target, "doc_ids", list)}
        if not wanted:
            raise ScorerFailed("recall: the target wants no document")
        k = target.get("k")
        if k is not None and (not isinstance(k, int) or k < 1):
            raise ScorerFailed(f"recall: k is {k!r}, not a positive number")
        found = {doc_id for search in _searches(attempted) for doc_id in search[:k]}
        value = len(wanted & found) / len(wanted)
        detail = {"missed": sorted(wanted - found), "k": k}
        return Score(self.name, self.version, value, value == 1.0, detail=detail)


def _searches(attempted: Attempted) -> list[list[str]]:
    retrieved = (attempted.state or {}).get("retrieved")
    if not isinstance(retrieved, list | tuple):
        raise ScorerFailed("recall: the attempt's state carries no list 'retrieved'")
    nested = [search for search in retrieved if isinstance(search, list | tuple)]
    if not nested:
        return [[str(doc_id) for doc_id in retrieved]]
    if len(nested) != len(retrieved):
        raise ScorerFailed("recall: 'retrieved' mixes searches and documents")
    return [[str(doc_id) for doc_id in search] for search in nested]
