"""An empty store in a folder of its own, whatever the environment says."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import storage

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _no_store_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "not-this-one"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)


@pytest.fixture
def home(tmp_path: Path) -> storage.Home:
    """Where the test's store is."""
    return storage.Home(tmp_path / "store")


@pytest.fixture
def catalog(home: storage.Home) -> Iterator[storage.Catalog]:
    """The test's store, open."""
    with storage.open_catalog(home) as catalog:
        yield catalog


@pytest.fixture
def worker_environment() -> dict[str, Any]:
    """What a process that a test starts needs to import the sources under test."""
    return {**os.environ, "PYTHONPATH": str(PROJECT)}
