"""Tests that every released schema stays readable, with null for new columns."""

import shutil
from pathlib import Path

import pytest
import sqlalchemy as sa

from tutti import storage
from tutti.storage import catalog as cat
from tutti.storage.base.columns import OLDEST_READ, PARTITIONED, SCHEMA_VERSION, SORTED_BY
from tutti.storage.base.outcomes import foreign_error
from tutti.storage.write.encode import TABLES

STORES = Path(__file__).parent / "stores"
ROWS = {"attempts": 6, "messages": 36, "calls": 15, "tool_runs": 9, "retrievals": 7, "scores": 6}


def test_a_store_of_the_version_before_is_read_and_written(tmp_path: Path) -> None:
    """All rows of the old store are there beside new ones, its windows can be computed, and new
    columns are null. A change of the version needs a stored example of the previous one."""
    assert OLDEST_READ == SCHEMA_VERSION - 1
    shutil.copytree(STORES / f"v{OLDEST_READ}", tmp_path / "old")
    home = storage.Home(tmp_path / "old")
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
        (None, cell["sweep_id"], 15),
        (4, cell["sweep_id"], 1),
    }
    assert storage.query(window, home) == before


@pytest.mark.parametrize(
    "statement", ["update alembic_version set version_num = '0005'", "drop table alembic_version"]
)
def test_an_older_catalog_is_refused_with_what_to_do(statement: str, tmp_path: Path) -> None:
    """Nothing in it is changed."""
    home = storage.Home(tmp_path / "store")
    with storage.open_catalog(home) as catalog, catalog.transaction() as connection:
        connection.execute(sa.text(statement))
    for _ in range(2):
        with pytest.raises(storage.StoreError, match=r"before 0006.*tutti export"):
            storage.open_catalog(home)


def test_a_catalog_from_the_future_is_refused(tmp_path: Path) -> None:
    """Writing to it with old rules could lose information."""
    home = storage.Home(tmp_path / "store")
    with storage.open_catalog(home) as catalog, catalog.transaction() as connection:
        connection.execute(sa.text("update alembic_version set version_num = '9999'"))
    with pytest.raises(storage.StoreError, match=r"revision '9999', made by a newer tutti"):
        storage.open_catalog(home)


@pytest.mark.parametrize(
    ("version", "age"), [(SCHEMA_VERSION + 1, "a newer"), (OLDEST_READ - 1, "an older")]
)
def test_a_part_of_another_version_is_refused(
    catalog: storage.Catalog, version: int, age: str
) -> None:
    """The part's columns may have another meaning."""
    storage.commit(catalog, {"attempts": [{"attempt_id": "a"}]})
    with catalog.transaction() as connection:
        connection.execute(sa.update(cat.parts).values(schema_version=version))
    told = f"table attempts, version {version}: written by {age} tutti"
    with pytest.raises(storage.StoreError, match=told):
        storage.connect(catalog.home)


def test_the_schemas_name_their_own_columns() -> None:
    """The sort and partition columns of parts exist."""
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
    """The class can be used for grouping; the whole text is the message."""
    assert foreign_error(text) == {"error_type": kind, "error_message": text}
    assert foreign_error(None) == foreign_error("") == {}
