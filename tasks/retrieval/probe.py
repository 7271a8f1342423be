"""Quality checks of a finished index, stored in its manifest, and the manifest as a page.

``recall``: how often a document is among the top k for its own name. ``probe``: the share of the
exact top ten that the index returns (1 for a flat one).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from tutti.tasks.retrieval.ann import Ann
from tutti.tasks.retrieval.embedder import Vectors
from tutti.tasks.retrieval.exact import Neighbours, search_exact
from tutti.tasks.retrieval.passage import PassageStore

QUERIES = 500
DEPTHS = (1, 2, 5, 10)
WORDS = 12  # characters of a text, if titles are not unique


def probe_names(store: PassageStore) -> tuple[list[int], list[str]]:
    """Return up to 500 rows, drawn with a fixed seed, and a name for each: its title, or its first
    words."""
    rows = Random(0).sample(range(len(store)), min(QUERIES, len(store)))
    passages = [store[row] for row in rows]
    titles = [passage.title for passage in passages]
    if all(titles) and len(set(titles)) == len(titles):
        return rows, titles
    return rows, [" ".join(passage.text.split()[:WORDS]) for passage in passages]


def probe_recall(
    queries: Vectors, rows: Sequence[int], vectors: Vectors, ann: Ann | None
) -> dict[str, Any]:
    """Return the manifest's ``recall`` and ``probe``; `queries` [q, d] search for `rows`."""
    depth = min(max(DEPTHS), len(vectors))
    exact = search_exact(queries, vectors, depth)
    found = exact if ann is None else ann.search(queries, depth)
    own = [row == best for row, best in zip(rows, found.rows, strict=True)]
    recall = {f"recall_at_{k}": sum(bool(hit[:k].any()) for hit in own) / len(own) for k in DEPTHS}
    overlap = overlap_share(exact, found)
    return {"recall": recall, "probe": {"recall_at_10": overlap, "queries": len(rows)}}


def overlap_share(exact: Neighbours, found: Neighbours) -> float:
    wanted = [set(row[row >= 0].tolist()) for row in exact.rows]
    got = [set(row.tolist()) for row in found.rows]
    hits = sum(len(a & b) for a, b in zip(wanted, got, strict=True))
    return hits / max(1, sum(map(len, wanted)))


def recall_line(manifest: Mapping[str, Any]) -> str:
    """``@1 0.912, @10 0.994``: how often a search for its own name returns a document."""
    recall = manifest["recall"].items()
    return ", ".join(f"@{name.rsplit('_', 1)[1]} {value:.3f}" for name, value in recall)


def manifest_page(manifest: Mapping[str, Any], folder: Path) -> str:
    """The manifest as a markdown table, and the command that serves the index."""
    spec = manifest["spec"]
    rows = {
        "index": f"`{manifest['index_id']}`",
        "corpus": f"`{manifest['corpus_id']}`",
        "documents": f"{manifest['documents']:,}",
        "kind": spec["kind"] + (" and BM25" if spec["words"] else ""),
        "embedder": ", ".join(f"{key} {value}" for key, value in manifest["embedder"].items()),
        "dimensions": manifest["dimensions"],
        "recall by a document's own name": recall_line(manifest),
        "folder": f"`{folder}`",
    }
    table = [f"| {name} | {value} |" for name, value in rows.items()]
    command = f"python -m tutti.tasks.retrieval.service --index {folder} --port 8100"
    return "\n".join(["| | |", "|---|---|", *table, "", "Serve it:", "", f"    {command}"])
