"""Fixtures for tests of training; in the models environment, none of them is used."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import NewCatalog
    from tutti.storage import Catalog


@pytest.fixture()
def catalog(tmp_path: Path, new_catalog: "NewCatalog") -> Iterator["Catalog"]:
    from tutti.storage import Home

    with new_catalog(Home(tmp_path / "store")) as made:
        yield made


@pytest.fixture()
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No backend's environment, wherever the tests run."""
    from tutti.tasks.training.backends import configure

    monkeypatch.setattr(configure, "backend_python", lambda name: None)
