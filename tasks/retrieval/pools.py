"""Pools: named sets of documents that a search may be limited to (the reference's ``eid``).

In: a JSON file of names to document ids. Out: rows of an index, looked up once per pool.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from tutti.tasks.retrieval.errors import FilterUnknown
from tutti.tasks.retrieval.passage import PassageStore
from tutti.tasks.retrieval.search.exact import Rows

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
