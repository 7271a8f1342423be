"""Fixtures: an empty store in a separate folder, with a catalog in SQLite and in PostgreSQL."""

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.conftest import NewCatalog
from tests.storage import postgres
from tutti import storage
from tutti.tasks.platform.project import PROJECT


@pytest.fixture(autouse=True)
def _no_store_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "not-this-one"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Yield a PostgreSQL server for this session; tests that need it are skipped if there is
    none."""
    if postgres.binaries() is None:
        pytest.skip(postgres.HOW)
    folder = Path(tempfile.mkdtemp(prefix="tutti-pg-"))  # a socket's path must be short
    try:
        with postgres.cluster(folder / "c") as url:
            yield url
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def empty_database(postgres_url: str) -> sa.URL:
    """Return a catalog without rows on that server, of which tests use copies."""
    server = sa.make_url(postgres_url)
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text("create database empty"))
    engine.dispose()
    url = server.set(database="empty").render_as_string(hide_password=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TUTTI_CATALOG_URL", url)
        storage.open_catalog(storage.Home(Path(tempfile.gettempdir()))).close()
    return server


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the database of the catalog; every test that opens a store runs on both."""
    if request.param == "sqlite":
        yield "sqlite"
        return
    server = request.getfixturevalue("empty_database")
    name = f"t{uuid.uuid4().hex}"
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f"create database {name} template empty"))
        url = server.set(database=name).render_as_string(hide_password=False)
        monkeypatch.setenv("TUTTI_CATALOG_URL", url)
        yield "postgresql"
        connection.execute(sa.text(f"drop database {name} with (force)"))
    engine.dispose()


@pytest.fixture
def home(tmp_path: Path) -> storage.Home:
    """Return the place of the test's store."""
    return storage.Home(tmp_path / "store")


@pytest.fixture
def catalog(
    home: storage.Home, database: str, new_catalog: NewCatalog
) -> Iterator[storage.Catalog]:
    """Yield the test's open store."""
    new = new_catalog if database == "sqlite" else storage.open_catalog
    with new(home) as catalog:
        yield catalog


@pytest.fixture
def worker_environment() -> dict[str, Any]:
    """Return the environment in which a child process imports the sources under test."""
    return {**os.environ, "PYTHONPATH": str(PROJECT)}
