"""Tests of the sweep's description at the head of a report."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tutti import storage
from tutti.storage import catalog as cat
from tutti.tasks.reporting.publish import _facts
from tutti.tasks.serving.engines.fitting import CacheRecord, CacheSize, keep_cache

ENGINES = {"small": "engine:1", "large": "engine:2", "outside": "endpoint:3"}


def enter_cell(catalog: storage.Catalog, model: str) -> None:
    """Store a cell measured with the model's engine."""
    row: dict[str, Any] = {"cell_id": f"cell:{model}"}
    row |= {"sweep_id": "sweep:1", "benchmark": "b", "model": model}
    row |= {"repeat": 0, "position": 0, "task_set_id": "t", "index_id": "", "samples": 2}
    catalog.upsert(cat.cells, row | {"status": "finished", "engine_id": ENGINES[model]})
    catalog.enter_artifact(ENGINES[model], {"server": "vllm"})


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[storage.Catalog]:
    """Yield the open catalog of an empty store."""
    with storage.open_catalog(storage.Home(tmp_path / "home")) as catalog:
        yield catalog


def test_the_caches_of_the_facts_engines_are_named(catalog: storage.Catalog) -> None:
    """Those that have reported one, each by its model; a remark where one is not as estimated."""
    for model in ENGINES:
        enter_cell(catalog, model)
    assert "KV cache" not in _facts(catalog, ["sweep:1"])
    whole, half = CacheSize(1000, 512), CacheSize(500, 512)
    keep_cache(catalog, ENGINES["small"], CacheRecord(whole, whole))
    keep_cache(catalog, ENGINES["large"], CacheRecord(whole, half))
    said = _facts(catalog, ["sweep:1"])["KV cache"]
    assert set(said.split("; ")) == {
        "small: estimated 1,000 tokens, engine reported 1,000",
        "large: estimated 1,000 tokens, engine reported 500, 50% less than estimated",
    }
