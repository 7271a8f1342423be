"""Tests of the background writer under random faults of producers and of the store, beside valid
groups."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tutti import storage
from tutti.storage import BufferedWriter, Group
from tutti.storage import catalog as cat
from tutti.storage.write import buffered
from tutti.storage.write.writer import commit_tables

ROWS = st.integers(1, 3)
HOWS = st.sampled_from(["add", "made", "put", "offer"])
GROUP_FAULTS = st.sampled_from(
    [None] * 6 + ["make", "make busy", "complete", "complete busy", "row", "passes", "passes once"]
)
STORE_FAULTS = st.sampled_from(["busy", "disk", "unanswered", "lost before", "before"])
ACTS = st.lists(
    st.one_of(
        st.tuples(HOWS, ROWS, GROUP_FAULTS),
        st.tuples(st.just("flush"), st.just(0), st.none()),
        st.tuples(st.just("fault"), st.just(0), STORE_FAULTS),
    ),
    max_size=14,
)


class FaultyStore:
    """Writer whose store and producers fail as a test specifies, and its recorded input."""

    def __init__(self, catalog: storage.Catalog, patch: pytest.MonkeyPatch) -> None:
        self.faults: list[str] = []
        """Of the next commits."""
        self.passing = 0
        self.good: list[str] = []
        """The ids that have to be stored, in order."""
        self.bad: dict[str, int] = {}
        """Groups that can never be, with their rows."""
        self.refused: list[str] = []
        self._real, self._catalog = catalog.transaction, catalog
        patch.setattr(catalog, "transaction", self._transaction)
        patch.setattr(buffered, "commit_tables", self._commit)
        self.writer = BufferedWriter(catalog, commit_s=60, before=self._before)

    def act(self, nth: int, how: str, rows: int, fault: Any) -> None:
        """Pass a group to the writer, or request a commit."""
        if how == "fault":
            # An entry that meets `TRIES` errors alone, of itself or of the store, is given up.
            self.passing += fault != "before"
            if self.passing <= 2 or fault == "before":
                self.faults.append(fault)
        elif how == "flush":
            with suppress(storage.StoreError):
                self.writer.flush()
        else:
            self._give(nth, how, rows, fault)

    def _give(self, nth: int, how: str, rows: int, fault: str | None) -> None:
        ids = [f"{nth}/{row}" for row in range(rows)]
        given: list[dict[str, Any]] = [{"call_id": each, "latency_s": 0.5} for each in ids]
        passing = [storage.StoreBusy("passes")] * (2 if fault == "passes" else 1)
        passing = passing if str(fault).startswith("passes") else []
        how = "put" if how != "made" and fault not in (None, "row") else how
        if fault in ("make", "make busy"):
            how = "made"
        if fault == "row":
            given[0]["latency_s"] = "long"
        loose = how in ("add", "made")
        error = storage.StoreBusy("always") if fault and "busy" in fault else KeyError("always")

        def change(_: sa.Connection) -> None:
            if fault in ("complete", "complete busy"):
                raise error
            if passing and how != "made":
                raise passing.pop()

        def make() -> Group:
            if fault in ("make", "make busy"):
                raise error
            if passing:
                raise passing.pop()
            return Group({"calls": given}, change if fault and "complete" in fault else None)

        def refuse(_: Exception) -> None:
            self.refused.append(str(nth))

        entered = True
        if how == "add":
            entered = self.writer.add_all({"calls": given})
        elif how == "made":
            entered = self.writer.add_made(make, on_refused=refuse)
        elif how == "offer" and fault in (None, "row"):
            entered = self.writer.offer({"calls": given}, {}, refuse)
        else:
            self.writer.put({"calls": given}, change, on_refused=refuse)
        assert entered
        if fault is None or fault.startswith("passes"):
            self.good += ids
        elif fault == "row" and loose:
            self.good += ids[1:]
            self.bad[f"row of {nth}"] = 1
        else:
            self.bad[str(nth)] = rows if "make" not in fault else 1

    def _before(self) -> None:
        if self.faults[:1] == ["before"]:
            raise KeyError(self.faults.pop(0))

    def _commit(
        self, catalog: storage.Catalog, tables: Any, complete: Any = None, lease: Any = None
    ) -> None:
        fault = self.faults.pop(0) if tables and self.faults else ""
        if fault == "busy":
            raise storage.StoreBusy(fault)
        if fault == "disk":
            raise storage.StoreError(fault) from OSError(5, fault)
        self._breaks = fault
        commit_tables(catalog, tables, complete, lease)

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        fault, self._breaks = getattr(self, "_breaks", ""), ""
        if fault == "lost before":
            with suppress(ZeroDivisionError), self._real() as connection:
                yield connection
                raise ZeroDivisionError
        else:
            with self._real() as connection:
                yield connection
        if fault in ("lost before", "unanswered"):
            raise storage.StoreError("server closed the connection")

    def finish(self) -> None:
        """Let the store recover and everything be committed."""
        for _ in range(len(self.faults) + buffered.TRIES * (len(self.bad) + len(self.good) + 1)):
            with suppress(storage.StoreError):
                self.writer.flush()
                if not self.writer._rows:
                    break
        self.writer.close()


@settings(max_examples=settings().max_examples // 4, suppress_health_check=list(HealthCheck))
@given(acts=ACTS)
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_every_good_group_is_stored_once_and_in_order(
    acts: list[tuple[str, int, Any]], catalog: storage.Catalog
) -> None:
    """This holds for any faults of other groups, which are counted and reported to their
    producers."""
    (before,) = catalog.rows(sa.text("select coalesce(max(rowid), 0) as n from parts"))  # type: ignore
    with pytest.MonkeyPatch.context() as patch:
        store = FaultyStore(catalog, patch)
        for nth, (how, rows, fault) in enumerate(acts):
            store.act(nth, how, rows, fault)
        store.finish()
    assert ids_of(catalog, before["n"]) == store.good
    assert store.writer.dropped == sum(store.bad.values())
    assert sorted(store.refused) == sorted(each for each in store.bad if "row" not in each)


def ids_of(catalog: storage.Catalog, after: int) -> list[str]:
    """Return the calls stored after a part, in commit order."""
    rowid: sa.ColumnElement[int] = sa.literal_column("rowid")
    query = sa.select(cat.parts.c.path).where(rowid > after).order_by(rowid)
    paths = [catalog.home.root / row["path"] for row in catalog.rows(query)]
    return [each for path in paths for each in pq.read_table(path)["call_id"].to_pylist()]
