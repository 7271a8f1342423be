"""The request and response format of ``POST /retrieve``.

In: the decoded body. Out: a `SearchRequest`, and the rows of the answer. The reference's form is
accepted too: a body with ``eid`` is answered with a bare list of lists, in which every document
carries its text as ``contents`` and as ``content``. ``eid`` names a pool: a set of documents, by a
JSON file, that a search may be limited to.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

from tutti.tasks.agents import MAX_QUERY_CHARS
from tutti.tasks.retrieval.errors import FilterUnknown
from tutti.tasks.retrieval.exact import Rows
from tutti.tasks.retrieval.index import Hit, Mode
from tutti.tasks.retrieval.passage import PassageStore

MAX_QUERIES = 256
MAX_TOPK = 1_000
MAX_NEIGHBOURS = 10
MAX_IDS = 10_000
MAX_PASSAGES = 32_768
"""Passages of one answer, with their neighbours: 256 queries of 100 passages fit."""
BODY_BYTES = 2**20
"""Of a request. To decode one takes less than the 50 ms that nothing may hold the event loop."""
FIELDS = frozenset(
    "queries topk return_scores eid ids mode approximate neighbours min_score rerank web".split()
)


@dataclass(frozen=True)
class SearchRequest:
    """A validated search request."""

    queries: tuple[str, ...]
    k: int
    only: str | tuple[str, ...] | None = None
    """A pool's name, document ids, or None for all documents."""
    mode: Mode | None = None
    approximate: bool = False
    neighbours: int = 0
    min_score: float | None = None
    rerank: bool = False
    web: bool = True
    scores: bool = True
    as_list: bool = False
    """Whether to answer in the reference's format."""

    @property
    def passages(self) -> int:
        """The most passages that its answer may hold."""
        return len(self.queries) * self.k * (1 + 2 * self.neighbours)

    @property
    def weight(self) -> int:
        """What a request costs to search, about a microsecond each."""
        ids = len(self.only) if isinstance(self.only, tuple) else 0
        return sum(map(len, self.queries)) + 10 * self.k + ids


def read_ask(body: object, has_pools: bool) -> SearchRequest:
    """Parse a body. Raises ValueError that says what is invalid."""
    if not isinstance(body, dict):
        raise ValueError("the body must be an object with `queries`")
    if unknown := next((name for name in body if name not in FIELDS), None):
        raise ValueError(f"unknown field {unknown:.100}; there are: {', '.join(sorted(FIELDS))}")
    mode = body.get("mode")
    if mode is not None and mode not in get_args(Mode):
        raise ValueError(f"`mode` must be one of {', '.join(get_args(Mode))}, not {mode!r:.100}")
    score = body.get("min_score")
    if score is not None and (isinstance(score, bool) or not isinstance(score, int | float)):
        raise ValueError(f"`min_score` must be a number, not {score!r:.100}")
    asked = SearchRequest(
        queries=_queries(body.get("queries")),
        k=_whole(body, "topk", 5, 1, MAX_TOPK),
        only=_only(body, has_pools),
        mode=mode,
        approximate=_flag(body, "approximate", False),
        neighbours=_whole(body, "neighbours", 0, 0, MAX_NEIGHBOURS),
        min_score=score,
        rerank=_flag(body, "rerank", False),
        web=_flag(body, "web", True),
        scores=_flag(body, "return_scores", True),
        as_list="eid" in body,
    )
    if asked.passages > MAX_PASSAGES:
        raise ValueError(
            f"{asked.passages} passages are asked for (`queries` times `topk`, with `neighbours`); "
            f"at most {MAX_PASSAGES} fit into an answer"
        )
    return asked


def _queries(given: object) -> tuple[str, ...]:
    if not isinstance(given, list):
        raise ValueError("`queries` must be a list of strings")
    if not 1 <= len(given) <= MAX_QUERIES:
        raise ValueError(f"`queries` must hold 1 to {MAX_QUERIES} strings, not {len(given)}")
    if not all(isinstance(query, str) for query in given):
        raise ValueError("`queries` must be a list of strings")
    if (longest := max(map(len, given))) > MAX_QUERY_CHARS:
        raise ValueError(f"a query has {longest} characters, at most {MAX_QUERY_CHARS}")
    return tuple(given)


def _only(body: Mapping[str, Any], has_pools: bool) -> str | tuple[str, ...] | None:
    """The filter: `ids`, or the pool that `eid` names if the service has pools."""
    ids, pool = body.get("ids"), body.get("eid")
    if ids is not None:
        if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids[: MAX_IDS + 1]):
            raise ValueError("`ids` must be a list of document ids")
        if len(ids) > MAX_IDS:
            raise ValueError(f"`ids` has {len(ids)} ids, at most {MAX_IDS}; name a pool for more")
        return tuple(ids)
    return str(pool) if has_pools and pool is not None else None


def _whole(body: Mapping[str, Any], name: str, default: int, low: int, high: int) -> int:
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        what = f"a whole number from {low} to {high}, not {value!r:.100}"
        raise ValueError(f"`{name}` must be {what}")
    return value


def _flag(body: Mapping[str, Any], name: str, default: bool) -> bool:
    value = body.get(name, default)
    if not isinstance(value, bool):
        raise ValueError(f"`{name}` must be true or false, not {value!r:.100}")
    return value


def result_rows(
    hits: Sequence[Hit], ask: SearchRequest, store: PassageStore
) -> list[dict[str, Any]]:
    """The answer's rows for one query."""
    return [_row(hit, ask, store) for hit in hits]


def _row(hit: Hit, ask: SearchRequest, store: PassageStore) -> dict[str, Any]:
    passage = hit.document
    document = {"id": passage.id, "contents": passage.text}
    if ask.as_list:
        document["content"] = passage.text
    row: dict[str, Any] = {"document": document}
    if ask.scores:
        row["score"] = hit.score
    row["source"] = "local" if hit.row >= 0 else "web"
    row["provenance"] = {
        "source": passage.source,
        "position": passage.position,
        "row": hit.row,
        "ranks": dict(hit.ranks),
    }
    if ask.neighbours and hit.row >= 0:
        near = store.neighbours(hit.row, ask.neighbours)
        row["neighbours"] = [{"id": other.id, "contents": other.text} for other in near]
    return row


IDS_KEPT = 8  # filters by ids whose rows are kept


class RowFilters:
    """Maps filters to rows of the index."""

    def __init__(self, store: PassageStore, pools: Mapping[str, Sequence[str]] | None) -> None:
        self.has_pools = pools is not None
        self._store, self._pools = store, pools or {}
        self._pool_rows: dict[str, Rows] = {}
        # For the queries of one request: with more of them, whoever asks could fill the memory.
        self._id_rows = lru_cache(IDS_KEPT)(store.rows_of)

    def rows(self, wanted: str | tuple[str, ...]) -> Rows:
        """Rows of a pool (a name) or of documents (their ids), ascending. Raises FilterUnknown."""
        if isinstance(wanted, tuple):
            return self._id_rows(wanted)
        if wanted not in self._pools:
            raise FilterUnknown(f"no pool {wanted!r:.100} among {len(self._pools)} pools")
        if wanted not in self._pool_rows:
            self._pool_rows[wanted] = self._store.rows_of(self._pools[wanted])
        return self._pool_rows[wanted]


def read_pools(path: Path) -> dict[str, list[str]]:
    """Pools of a JSON file ``{name: [document id, …]}``. Raises ValueError."""
    try:
        pools = json.loads(path.read_text())
    except RecursionError as error:
        raise ValueError(f"{path}: {error}") from error
    if not isinstance(pools, dict) or not all(isinstance(ids, list) for ids in pools.values()):
        raise ValueError(f"{path} must hold an object of names to lists of document ids")
    return {str(name): [str(one) for one in ids] for name, ids in pools.items()}
