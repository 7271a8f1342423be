"""Fixtures: a store, and an inventory of fake GPUs with the test's own locks."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import NewCatalog
from tutti import storage
from tutti.tasks.platform.project import PROJECT

MakeGpus = Callable[[int], Path]


@pytest.fixture
def catalog(tmp_path: Path, new_catalog: NewCatalog) -> Iterator[storage.Catalog]:
    """Yield the test's open store."""
    with new_catalog(storage.Home(tmp_path / "store")) as catalog:
        yield catalog


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeGpus:
    """List fake GPUs of this host with uuids in the file that TUTTI_GPUS names."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("TUTTI_GPU_LOCKS", str(tmp_path / "locks"))

    def make(n: int) -> Path:
        listed = [{"index": i, "uuid": f"GPU-{i}{i}{i}{i}-aa", "name": "H100"} for i in range(n)]
        elsewhere = {"host": f"not-{socket.gethostname()}", "index": 0, "uuid": "GPU-elsewhere"}
        file = tmp_path / "gpus.yaml"
        file.write_text(yaml.safe_dump({"gpus": [*listed, elsewhere]}))
        monkeypatch.setenv("TUTTI_GPUS", str(file))
        return file

    return make


@pytest.fixture
def worker_environment(listed: MakeGpus) -> dict[str, Any]:
    """Return the environment in which a child process imports the sources under test."""
    return {**os.environ, "PYTHONPATH": str(PROJECT)}
