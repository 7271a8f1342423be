"""Tests that parts without a catalog are refused, but not the state after a crash or a race."""

import multiprocessing
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.conftest import NewCatalog
from tutti import storage
from tutti.cli.main import app
from tutti.storage import catalog as cat
from tutti.storage.catalog import boundary, tables
from tutti.storage.write.encode import TABLES
from tutti.storage.write.writer import write_part

ROWS = {"attempts": [{"attempt_id": "a", "sweep_id": "sweep:1"}]}


def parts(home: storage.Home) -> list[Path]:
    """Return the files of the tables."""
    return sorted(path for path in home.tables.rglob("*") if path.is_file())


def orphan(home: storage.Home) -> None:
    """Write a part without a catalog entry."""
    write_part(home, "attempts", None, TABLES["attempts"].empty_table())


def lose_catalog(catalog: storage.Catalog) -> None:
    """Delete the catalog: the file, or the database's tables."""
    if os.environ.get("TUTTI_CATALOG_URL"):
        with catalog.engine.begin() as connection:
            cat.metadata.drop_all(connection)
            tables.stored_revision.drop(connection)
    catalog.close()
    for file in catalog.home.root.glob("catalog.db*"):
        file.unlink()


def test_a_store_without_its_catalog_is_refused(catalog: storage.Catalog) -> None:
    """Readers and writers are refused each time, and nothing in the store is created or changed."""
    home = catalog.home
    storage.commit(catalog, ROWS)
    lose_catalog(catalog)
    before = parts(home)
    for _ in range(2):
        for opening in (storage.open_catalog, storage.connect, storage.Catalog):
            with pytest.raises(storage.CatalogMissing, match="tables/ holds parts"):
                opening(home)
        with pytest.raises(storage.CatalogMissing, match="TUTTI_CATALOG_URL"):
            storage.query("select count(*) from attempts", home)
    assert parts(home) == before and not list(home.root.glob("catalog.db*"))


@pytest.mark.parametrize("verb", [["sql", "select 1"], ["verify", "--repair"], ["compact"]])
def test_every_verb_says_so(tmp_path: Path, new_catalog: NewCatalog, verb: list[str]) -> None:
    """This includes `verify --repair`, which would set every part aside as unknown."""
    home = storage.Home(tmp_path / "store")
    with new_catalog(home) as catalog:
        storage.commit(catalog, ROWS)
        lose_catalog(catalog)
    before = parts(home)
    done = CliRunner().invoke(app, verb, env={"TUTTI_HOME": str(home.root)})
    assert done.exit_code == 1 and f"{home}: {home.catalog_file} is missing" in done.stderr
    assert parts(home) == before


def test_an_empty_file_in_its_place_is_no_catalog(catalog: storage.Catalog) -> None:
    """`touch` or an interrupted copy leaves such a file."""
    storage.commit(catalog, ROWS)
    lose_catalog(catalog)
    if not os.environ.get("TUTTI_CATALOG_URL"):
        catalog.home.catalog_file.touch()
    with pytest.raises(storage.CatalogMissing, match="holds no catalog"):
        storage.open_catalog(catalog.home)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_copy_put_back_is_as_before(catalog: storage.Catalog, tmp_path: Path) -> None:
    """The fix in the message works, also beside the log that the refusal left unchanged."""
    storage.commit(catalog, ROWS)
    catalog.close()
    shutil.copyfile(catalog.home.catalog_file, tmp_path / "copy.db")
    lose_catalog(catalog)
    with pytest.raises(storage.CatalogMissing):
        storage.open_catalog(catalog.home)
    shutil.copyfile(tmp_path / "copy.db", catalog.home.catalog_file)
    assert storage.query("select attempt_id from attempts", catalog.home) == [{"attempt_id": "a"}]


def test_a_new_folder_and_half_a_part_are_no_lost_store(home: storage.Home, database: str) -> None:
    """Existing folders and a temporary file do not imply a catalog."""
    folder = home.tables / "attempts" / "sweep_id=sweep%3A1"
    folder.mkdir(parents=True)
    (folder / "part-1.parquet.tmp").write_bytes(b"")
    assert storage.query("select * from attempts", home) == []


def test_a_writer_killed_before_its_entry_leaves_a_store_that_opens(
    catalog: storage.Catalog,
) -> None:
    """The catalog has its tables but no entry, although a part exists: the store is intact."""
    orphan(catalog.home)
    assert storage.query("select * from attempts", catalog.home) == []
    with storage.open_catalog(catalog.home) as again:
        storage.commit(again, ROWS)
    assert len(storage.query("select * from attempts", catalog.home)) == 1


@pytest.fixture
def another_makes_it(monkeypatch: pytest.MonkeyPatch, home: storage.Home) -> Iterator[list[bool]]:
    """Let another process create the store and write its first part while this process looks for
    parts."""
    look, looked = boundary.holds_parts, []

    def holds_parts(home: storage.Home) -> bool:
        looked.append(True)
        if len(looked) == 1:
            storage.open_catalog(home).close()
            orphan(home)
        return look(home)

    monkeypatch.setattr(boundary, "holds_parts", holds_parts)
    monkeypatch.setattr("tutti.storage.catalog.store.holds_parts", holds_parts)
    yield looked


def test_another_that_makes_the_store_meanwhile_is_no_loss(
    home: storage.Home, database: str, another_makes_it: list[bool]
) -> None:
    """The other process's part is visible and its entry is not yet, but its catalog exists by
    then."""
    if database == "sqlite":
        home.root.mkdir(parents=True)
    else:
        with storage.open_catalog(home) as catalog:
            lose_catalog(catalog)
        another_makes_it.clear()
    storage.open_catalog(home).close()
    assert another_makes_it and len(parts(home)) == 1


def _open_and_commit(root: str, nth: int) -> None:
    with storage.open_catalog(storage.Home(Path(root))) as catalog:
        storage.commit(catalog, {"attempts": [{"attempt_id": f"a{nth}"}]})


@pytest.mark.slow
def test_many_that_open_a_new_store_at_once_all_write(home: storage.Home) -> None:
    """One may see the first part of another; none is refused."""
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        pool.starmap(_open_and_commit, [(str(home.root), nth) for nth in range(8)], chunksize=1)
    found = storage.query("select count(distinct attempt_id) n from attempts", home)
    assert found == [{"n": 8}]


def test_another_database_than_the_stores_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: storage.Home
) -> None:
    """The variable is wrong and names a new database."""
    orphan(home)
    monkeypatch.setenv("TUTTI_CATALOG_URL", f"sqlite:///{tmp_path}/other.db")
    with pytest.raises(storage.CatalogMissing, match=r"other\.db holds no catalog"):
        storage.open_catalog(home)
