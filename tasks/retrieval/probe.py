"""Quality checks of a finished index; the results are stored in its manifest.

In: its vectors, and queries made of its own documents' names. Out: ``recall``, how often a document
is among the top k for its own name, and ``probe``, the share of the exact top ten that the index
finds (1 for a flat one).
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from tutti.tasks.retrieval.embedder import Vectors
from tutti.tasks.retrieval.passage import PassageStore
from tutti.tasks.retrieval.search.ann import Ann
from tutti.tasks.retrieval.search.exact import Neighbours, search_exact

QUERIES = 500
DEPTHS = (1, 2, 5, 10)
WORDS = 12  # characters of a text, if titles are not unique


def probe_names(store: PassageStore) -> tuple[list[int], list[str]]:
    """(rows, queries): up to 500 documents drawn with a fixed seed, and a name for each.

    The name is the title, or the text's first words if the title is missing or not unique.
    """
    rows = Random(0).sample(range(len(store)), min(QUERIES, len(store)))
    passages = store_at(store, rows)
    titles = [passage.title for passage in passages]
    if all(titles) and len(set(titles)) == len(titles):
        return rows, titles
    return rows, [" ".join(passage.text.split()[:WORDS]) for passage in passages]


def store_at(store: PassageStore, rows: Sequence[int]) -> list[Any]:
    """The passages of `rows`, in their order."""
    return [store[row] for row in rows]


def probe_recall(
    queries: Vectors, rows: Sequence[int], vectors: Vectors, ann: Ann | None
) -> dict[str, Any]:
    """The manifest's ``recall`` and ``probe``; `queries` [q, d] search for `rows`."""
    depth = min(max(DEPTHS), len(vectors))
    exact = search_exact(queries, vectors, depth)
    found = exact if ann is None else ann.search(queries, depth)
    own = [row == best for row, best in zip(rows, found.rows, strict=True)]
    recall = {f"recall_at_{k}": sum(bool(hit[:k].any()) for hit in own) / len(own) for k in DEPTHS}
    overlap = overlap_share(exact, found)
    return {"recall": recall, "probe": {"recall_at_10": overlap, "queries": len(rows)}}


def overlap_share(exact: Neighbours, found: Neighbours) -> float:
    """Share of the exact rows that were found, over all queries."""
    wanted = [set(row[row >= 0].tolist()) for row in exact.rows]
    got = [set(row.tolist()) for row in found.rows]
    hits = sum(len(a & b) for a, b in zip(wanted, got, strict=True))
    return hits / max(1, sum(map(len, wanted)))
