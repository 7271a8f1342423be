"""Pools: named sets of documents that a search may be limited to (the reference's ``eid``).

In: a JSON file of names to document ids. Out: rows of an index, looked up once per pool.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path

from tutti.tasks.retrieval.errors import FilterUnknown
from tutti.tasks.retrieval.passage import PassageStore
from tutti.tasks.retrieval.search.exact import Rows

KEPT = 1_024  # filters whose rows are cached


class RowFilters:
    """Maps filters to rows of the index. Use from one thread only."""

    def __init__(self, store: PassageStore, pools: Mapping[str, Sequence[str]] | None) -> None:
        self.has_pools = pools is not None
        self._store, self._pools = store, pools or {}
        self._known: OrderedDict[str | tuple[str, ...], Rows] = OrderedDict()

    def rows(self, wanted: str | tuple[str, ...]) -> Rows:
        """Rows of a pool (a name) or of documents (their ids), ascending. Raises FilterUnknown."""
        if wanted not in self._known:
            self._known[wanted] = self._store.rows_of(self._ids(wanted))
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(wanted)
        return self._known[wanted]

    def _ids(self, wanted: str | tuple[str, ...]) -> Sequence[str]:
        if isinstance(wanted, tuple):
            return wanted
        if wanted not in self._pools:
            raise FilterUnknown(f"no pool {wanted!r} among {len(self._pools)} pools")
        return self._pools[wanted]


def read_pools(path: Path) -> dict[str, list[str]]:
    """Pools of a JSON file ``{name: [document id, …]}``. Raises ValueError."""
    try:
        pools = json.loads(path.read_text())
    except RecursionError as error:
        raise ValueError(f"{path}: {error}") from error
    if not isinstance(pools, dict) or not all(isinstance(ids, list) for ids in pools.values()):
        raise ValueError(f"{path} must hold an object of names to lists of document ids")
    return {str(name): [str(one) for one in ids] for name, ids in pools.items()}
