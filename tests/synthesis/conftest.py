"""Fixtures: a store with a domain that is small enough for tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import NewCatalog
from tests.synthesis.lending import Lending
from tutti import storage
from tutti.tasks.synthesis.programs import PROGRAMS


@pytest.fixture
def catalog(
    tmp_path: Path, new_catalog: NewCatalog, monkeypatch: pytest.MonkeyPatch
) -> Iterator[storage.Catalog]:
    monkeypatch.setitem(PROGRAMS, "lending", Lending())
    with new_catalog(storage.Home(tmp_path / "store")) as opened:
        yield opened
