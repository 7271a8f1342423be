"""An empty store in a folder of its own, with a catalog in SQLite and in PostgreSQL."""

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
    """A PostgreSQL server for this session; tests that ask for it skip where there is none."""
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
    """A catalog without rows on that server, which tests take copies of."""
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
    """Which database keeps the catalog; every test that opens a store runs on both."""
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
    """Where the test's store is."""
    return storage.Home(tmp_path / "store")


@pytest.fixture
def catalog(
    home: storage.Home, database: str, new_catalog: NewCatalog
) -> Iterator[storage.Catalog]:
    """The test's store, open."""
    new = new_catalog if database == "sqlite" else storage.open_catalog
    with new(home) as catalog:
        yield catalog


@pytest.fixture
def worker_environment() -> dict[str, Any]:
    """What a process that a test starts needs to import the sources under test."""
    return {**os.environ, "PYTHONPATH": str(PROJECT)}
