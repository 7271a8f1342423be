"""Every released schema stays readable, and what is new is null there."""

import json
import shutil
from pathlib import Path

import pytest
import sqlalchemy as sa

from tutti import storage
from tutti.storage import catalog as cat
from tutti.storage.catalog.revisions import bring_up_to_date
from tutti.storage.columns import PARTITIONED, SCHEMA_VERSION, SORTED_BY
from tutti.storage.error_types import foreign_error
from tutti.storage.maintenance import compact
from tutti.storage.schemas import TABLES

STORES = Path(__file__).parent / "stores"
RELEASED = sorted(int(path.name[1:]) for path in STORES.iterdir())
ROWS = {"attempts": 6, "messages": 36, "calls": 15, "tool_runs": 9, "retrievals": 7, "scores": 6}


def opened(version: int, tmp_path: Path) -> storage.Home:
    """A copy of the store that was written at a version of the schema."""
    shutil.copytree(STORES / f"v{version}", tmp_path / "old")
    return storage.Home(tmp_path / "old")


def test_a_store_of_every_earlier_version_is_kept() -> None:
    """A change of the version needs a stored example of the previous one."""
    assert list(range(1, SCHEMA_VERSION)) == RELEASED


@pytest.mark.parametrize("version", RELEASED)
def test_an_older_store_is_read_and_written(version: int, tmp_path: Path) -> None:
    """Its rows are all there beside new ones, its windows still answer, new columns are null."""
    home = opened(version, tmp_path)
    for table, count in ROWS.items():
        assert storage.query(f"select count(*) as n from {table}", home) == [{"n": count}]
    (cell,) = storage.query("select cell_id, sweep_id from cells", home)
    window = (
        f"select steps, accuracy, prefill_s_mean from window_summary('{cell['cell_id']}', 0, 1e4)"
    )
    before = storage.query(window, home)
    assert before[0]["steps"] == 15 and before[0]["prefill_s_mean"] > 0
    with storage.open_catalog(home) as catalog:
        new = {"call_id": "new", "cell_id": cell["cell_id"], "concurrency": 4, "status": "ok"}
        storage.commit(catalog, {"calls": [new]})
    found = storage.query(
        "select concurrency, sweep_id, count(*) as n from calls group by all", home
    )
    assert {(row["concurrency"], row["sweep_id"], row["n"]) for row in found} == {
        (None, cell["sweep_id"] if version > 1 else None, 15),
        (4, cell["sweep_id"], 1),
    }
    assert storage.query(window, home) == before


@pytest.mark.parametrize("version", RELEASED)
def test_an_older_catalog_becomes_what_a_new_one_is(version: int, tmp_path: Path) -> None:
    """Migrated and made: the same tables, columns, keys and indexes."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    for home in (opened(version, tmp_path), storage.Home(tmp_path / "new")):
        with storage.open_catalog(home) as catalog, catalog.engine.connect() as connection:
            assert compare_metadata(MigrationContext.configure(connection), cat.metadata) == []


OLD_REASONS = {
    "p95 limit 0.3 s: over-saturated: 60 of 120 steps took longer than 0.3 s (5 % would be "
    "allowed)": ("latency_limit", 0.3, None),
    "margin 0.05 to passthrough: decided after 9 of 20 tasks: accuracy is worse (difference "
    "-0.300 to -0.100)": ("accuracy_decided", 0.05, "passthrough"),
    "its 90 s are over": ("time_limit", 90.0, None),
    "the budget of 2.5 minutes is spent": ("budget_minutes", 2.5, None),
    "the budget of 1e-05 USD is spent (0.00)": ("budget_usd", 1e-05, None),
    "let go on 2026-01-02": ("expired", None, None),
    "somebody's own words": ("other", None, None),
}


CODES = ("reason_code", "reason_value", "reason_reference")


def test_reasons_of_older_cells_become_codes(catalog: storage.Catalog) -> None:
    """From revision 0004; a cell without a reason gets no code, and no text is changed."""
    cell = {"benchmark": "b", "model": "m", "policy": "cap", "concurrency": 1, "repeat": 0}
    cell |= {"position": 0, "task_set_id": "t", "index_id": "i", "samples": 1, "sweep_id": "s"}
    names = [column.name for column in cat.cells.c if column.name not in CODES]
    old = sa.table("cells", *(sa.column(name) for name in names))
    with catalog.transaction() as connection:
        for name in CODES:
            connection.execute(sa.text(f"alter table cells drop column {name}"))
        connection.execute(sa.text("alter table windows drop column reason_code"))
        connection.execute(sa.text("update alembic_version set version_num = '0004'"))
        for text in [*OLD_REASONS, None]:
            row = cell | {"cell_id": str(text), "status": "ended_early", "reason": text}
            connection.execute(sa.insert(old).values(row))
        windows = sa.table("windows", *(sa.column(n) for n in ("cell_id", "name", "reason")))
        for reason in ("the suite's", "by eye"):
            window = {"cell_id": "c", "name": reason, "reason": reason}
            connection.execute(sa.insert(windows).values(window))
        for label, accepted in (
            ("a", "by hand: looked at"),
            ("b", "all gates passed"),
            ("c", None),
        ):
            night = {"verdict_id": label, "metric": "night", "cell_a": "", "cell_b": ""}
            night |= {"verdict": "same", "detail": json.dumps({"accepted": accepted})}
            connection.execute(sa.insert(cat.verdicts).values(night))
        bring_up_to_date(connection)
    rows = catalog.rows(sa.select(cat.cells))
    found = {row["reason"]: tuple(row[name] for name in CODES) for row in rows}
    assert found == OLD_REASONS | {None: (None, None, None)}
    codes = {row["reason"]: row["reason_code"] for row in catalog.rows(sa.select(cat.windows))}
    assert codes == {"the suite's": "suite", "by eye": None}
    nights = catalog.rows(sa.select(cat.verdicts))
    by_hand = {row["verdict_id"]: json.loads(row["detail"])["by_hand"] for row in nights}
    assert by_hand == {"a": True, "b": False, "c": False}


def test_messages_of_older_attempts_are_of_kind_other(tmp_path: Path) -> None:
    """What is one word stays the kind; compacted, it is what the view showed before."""
    home = opened(3, tmp_path)
    (cell,) = storage.query("select reason_code, reason_value from cells", home)
    assert cell == {"reason_code": "latency_limit", "reason_value": 2.5}
    kinds = "select error_type, count(*) as n from attempts group by all order by all nulls last"
    rows = "select * from attempts order by attempt_id"
    before = storage.query(rows, home)
    counts = [("context", 1), ("other", 2), (None, 3)]
    assert [(row["error_type"], row["n"]) for row in storage.query(kinds, home)] == counts
    messages = {row["error_message"] for row in before}
    text = 'HTTP 503: {"error": "no engine"}'
    assert messages == {text, "the process that ran it ended", None}
    with storage.open_catalog(home) as catalog:
        new = {"attempt_id": "new", "error_type": "http_503", "error_message": "HTTP 503"}
        storage.commit(catalog, {"attempts": [new]})
        assert len(storage.query(rows, home)) == 7
        compact(catalog)
    after = storage.query(rows, home)
    assert [row for row in after if row["attempt_id"] != "new"] == before


def test_a_catalog_from_the_future_is_refused(tmp_path: Path) -> None:
    """Writing to it with old rules could lose what it knows."""
    home = storage.Home(tmp_path / "store")
    with storage.open_catalog(home) as catalog, catalog.transaction() as connection:
        connection.execute(sa.text("update alembic_version set version_num = '9999'"))
    with pytest.raises(storage.StoreError, match=r"revision '9999', made by a newer tutti"):
        storage.open_catalog(home)


def test_a_part_from_the_future_is_refused(catalog: storage.Catalog) -> None:
    """Its columns may mean something else."""
    storage.commit(catalog, {"attempts": [{"attempt_id": "a"}]})
    with catalog.transaction() as connection:
        connection.execute(sa.update(cat.parts).values(schema_version=SCHEMA_VERSION + 1))
    with pytest.raises(
        storage.StoreError, match=r"table attempts, version \d+: written by a newer"
    ):
        storage.connect(catalog.home)


def test_the_schemas_name_their_own_columns() -> None:
    """What parts are sorted by and partitioned by are columns they have."""
    assert SORTED_BY.keys() == TABLES.keys()
    for name, keys in SORTED_BY.items():
        assert set(keys) <= set(TABLES[name].names)
    assert "attempts" in PARTITIONED


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("EnvError: run() raised", "EnvError"),
        ("inspect_ai.TimeoutError('late')", "inspect_ai.TimeoutError"),
        ("context_window_exceeded", "context_window_exceeded"),
        ("the disk is gone: read it again", "other"),
    ],
)
def test_a_foreign_errors_kind_is_its_class(text: str, kind: str) -> None:
    """All that can be grouped by; the whole text is the message."""
    assert foreign_error(text) == {"error_type": kind, "error_message": text}
    assert foreign_error(None) == foreign_error("") == {}
