"""The request and response format of ``POST /retrieve``.

A body with ``eid`` has the form of ToolOrchestra's clients: the answer is a bare list of lists, in
which every document has its text as ``contents`` and as ``content``. ``eid`` names a pool, a set of
documents in a JSON file to which a search may be limited.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tutti.tasks.agents.tools import MAX_QUERY_CHARS
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
"""The longest body of a request, decoded in less than the 50 ms that the event loop may block."""

Text = Annotated[str, Field(strict=True)]
Query = Annotated[Text, Field(max_length=MAX_QUERY_CHARS)]


class SearchRequest(BaseModel):
    """The body of a search request."""

    model_config = ConfigDict(strict=True, frozen=True)

    queries: tuple[Query, ...] = Field(
        min_length=1, max_length=MAX_QUERIES, fail_fast=True, strict=False
    )
    topk: int = Field(default=5, ge=1, le=MAX_TOPK)
    return_scores: bool = True
    eid: Any = None
    """A pool's name. With it, also None, the answer has the reference's form."""
    ids: tuple[Text, ...] | None = Field(
        default=None, max_length=MAX_IDS, fail_fast=True, strict=False
    )
    mode: Mode | None = None
    approximate: bool = False
    neighbours: int = Field(default=0, ge=0, le=MAX_NEIGHBOURS)
    min_score: float | None = Field(default=None, allow_inf_nan=False)
    rerank: bool = False
    web: bool = True

    @property
    def as_list(self) -> bool:
        return "eid" in self.model_fields_set

    @property
    def passages(self) -> int:
        """Return the most passages that its answer may hold."""
        return len(self.queries) * self.topk * (1 + 2 * self.neighbours)

    @property
    def weight(self) -> int:
        """Return the cost of the search, in units of about a microsecond."""
        return sum(map(len, self.queries)) + 10 * self.topk + len(self.ids or ())


FIELDS = sorted(SearchRequest.model_fields)


def read_request(body: bytes) -> SearchRequest:
    """Parse a body. Raises ValueError that says what is invalid."""
    given = orjson.loads(body)  # pydantic takes three times as long for a body full of names
    if not isinstance(given, dict):
        raise ValueError("the body must be an object with `queries`")
    if unknown := next((name for name in given if name not in FIELDS), None):
        raise ValueError(f"unknown field {unknown:.100}; there are: {', '.join(FIELDS)}")
    try:
        request = SearchRequest.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise ValueError(f"`{'.'.join(map(str, first['loc']))}`: {first['msg']}") from error
    if request.passages > MAX_PASSAGES:
        raise ValueError(
            f"{request.passages} passages are asked for (`queries` times `topk`, with "
            f"`neighbours`); at most {MAX_PASSAGES} fit into an answer"
        )
    return request


def result_rows(
    hits: Sequence[Hit], ask: SearchRequest, store: PassageStore
) -> list[dict[str, Any]]:
    rows = []
    for hit in hits:
        passage = hit.document
        document = {"id": passage.id, "contents": passage.text}
        if ask.as_list:
            document["content"] = passage.text
        row: dict[str, Any] = {"document": document}
        if ask.return_scores:
            row["score"] = hit.score
        row["source"] = "local" if hit.row >= 0 else "web"
        provenance = {"source": passage.source, "position": passage.position, "row": hit.row}
        row["provenance"] = {**provenance, "ranks": dict(hit.ranks)}
        if ask.neighbours and hit.row >= 0:
            near = store.neighbours(hit.row, ask.neighbours)
            row["neighbours"] = [{"id": other.id, "contents": other.text} for other in near]
        rows.append(row)
    return rows


IDS_KEPT = 8  # filters by ids whose rows are kept


class RowFilters:
    """Maps filters to rows of the index."""

    def __init__(self, store: PassageStore, pools: Mapping[str, Sequence[str]] | None) -> None:
        self._store, self._pools = store, pools
        self._pool_rows: dict[str, Rows] = {}
        # Enough for the queries of one request: more of them could fill the memory.
        self._id_rows = lru_cache(IDS_KEPT)(store.rows_of)

    def rows(self, ask: SearchRequest) -> Rows | None:
        """Rows of its documents or its pool, ascending; None for all. Raises FilterUnknown."""
        if ask.ids is not None:
            return self._id_rows(ask.ids)
        if self._pools is None or ask.eid is None:
            return None
        pool = str(ask.eid)
        if pool not in self._pools:
            raise FilterUnknown(f"no pool {pool!r:.100} among {len(self._pools)} pools")
        if pool not in self._pool_rows:
            self._pool_rows[pool] = self._store.rows_of(self._pools[pool])
        return self._pool_rows[pool]


def read_pools(path: Path) -> dict[str, list[str]]:
    """Pools of a JSON file ``{name: [document id, …]}``. Raises ValueError."""
    try:
        pools = json.loads(path.read_text())
    except RecursionError as error:
        raise ValueError(f"{path}: {error}") from error
    if not isinstance(pools, dict) or not all(isinstance(ids, list) for ids in pools.values()):
        raise ValueError(f"{path} must hold an object of names to lists of document ids")
    return {str(name): [str(one) for one in ids] for name, ids in pools.items()}
